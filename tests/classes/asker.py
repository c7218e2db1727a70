"""Asks the server at the port in a file, five times a second, until it is ended."""

import sys
import time
import urllib.request

port = open(sys.argv[1]).read()
while True:
    urllib.request.urlopen("http://127.0.0.1:%s/" % port, timeout=30).read()
    time.sleep(0.2)
