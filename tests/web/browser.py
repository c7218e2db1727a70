"""A headless Chromium, by the DevTools protocol over its pipe: no driver and no module is needed."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PATIENCE_S = 60


def find():
    """The program, or an empty string."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return shutil.which(name)
    return ""


class Browser:
    def __init__(self, program, hosts=""):
        self.profile = tempfile.mkdtemp(prefix="salus-browser-")
        theirs_in, self.out = os.pipe()
        self.input, theirs_out = os.pipe()
        options = ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                   "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--force-color-profile=srgb",
                   "--user-data-dir=" + self.profile]
        if hosts:
            options.append("--host-resolver-rules=" + hosts)
        # The protocol is on descriptors 3 and 4.
        plumb = "exec 3<&%d 4>&%d; exec \"$@\"" % (theirs_in, theirs_out)
        self.process = subprocess.Popen(["bash", "-c", plumb, "browser", program, *options, "about:blank"], pass_fds=(theirs_in, theirs_out),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self.number = 0
        self.unread = b""
        self.complaints = []  # what the page's console says of errors
        self.session = None
        page = next(one for one in self.tell("Target.getTargets")["targetInfos"] if one["type"] == "page")
        self.session = self.tell("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.tell(domain + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.session = None
            self.tell("Browser.close")
            self.process.wait(20)
        except (OSError, RuntimeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def tell(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE_S
        while True:
            answer = self.read(until)
            if answer.get("id") != self.number:
                continue
            if "error" in answer:
                raise RuntimeError("%s: %s" % (method, answer["error"]["message"]))
            return answer["result"]

    def read(self, until):
        while b"\0" not in self.unread:
            if not select.select([self.input], [], [], max(0, until - time.monotonic()))[0]:
                raise RuntimeError("the browser does not answer")
            part = os.read(self.input, 1 << 20)
            if not part:
                raise RuntimeError("the browser is gone")
            self.unread += part
        text, self.unread = self.unread.split(b"\0", 1)
        message = json.loads(text)
        if message.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(message["params"]["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        if message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            self.complaints.append(message["params"]["entry"]["text"] + " " + message["params"]["entry"].get("url", ""))
        return message

    def go(self, address):
        self.tell("Page.navigate", url="about:blank")
        error = self.tell("Page.navigate", url=address).get("errorText")
        if error:
            raise RuntimeError("%s: %s" % (address, error))
        self.wait("document.readyState === 'complete'")

    def value(self, expression):
        told = self.tell("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in told:
            raise RuntimeError("%s: %s" % (expression, told["exceptionDetails"].get("exception", {}).get("description")))
        return told["result"].get("value")

    def wait(self, condition, patience_s=PATIENCE_S):
        until = time.monotonic() + patience_s
        while not self.value("!!(%s)" % condition):
            if time.monotonic() > until:
                raise AssertionError("the page never came to: " + condition + "\n" + (self.value("document.body.innerText") or "")[:2000])
            time.sleep(0.05)

    def press(self, key, text=""):
        codes = {"Enter": 13, "Escape": 27, "ArrowUp": 38, "ArrowDown": 40}
        what = {"key": key, "windowsVirtualKeyCode": codes.get(key, 0)}
        if len(key) == 1:
            what["text"] = text or key
        self.tell("Input.dispatchKeyEvent", type="keyDown", **what)
        self.tell("Input.dispatchKeyEvent", type="keyUp", **what)

    def look(self, width, height, dark=False, phone=False):
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.tell("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.tell("Page.captureScreenshot", format="png")["data"]))
