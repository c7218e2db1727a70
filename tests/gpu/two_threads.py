"""Two threads, each with a model on the device; each ends with the weights that it has when it runs alone."""
import copy
import threading

import torch
from _common import check_same_weights, exact, perceptron, train, vectors

exact()
models, batches = [perceptron(), perceptron()], [vectors(30), vectors(30)]
alone = [train(copy.deepcopy(model), own)[1] for model, own in zip(models, batches)]
together = [None, None]


def work(number):
    together[number] = train(models[number], batches[number])[1]


threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for one, other in zip(together, alone):
    check_same_weights(one, other)
print("ok two threads, each as alone")
