"""bench/predict: what it takes from measured rows, and the job files it makes of that."""

import importlib.machinery
import importlib.util
import os
import unittest

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "predict")
loader = importlib.machinery.SourceFileLoader("predict", PATH)
predict = importlib.util.module_from_spec(importlib.util.spec_from_loader("predict", loader))
loader.exec_module(predict)


def row(count, latency_of):
    """What bench/gpu inference would write if the requests of an application took these times, one after the other."""
    one = {"requests_s": 50.0, "seconds": 3.0, "set": 0, "round": 2, "count": count, "latencies": []}
    for number in range(count):
        end = 0.0
        for at in predict.arrivals(50.0, 3.0, predict.seed_of(one, number)):
            end = max(at, end) + latency_of(number)
            one["latencies"].append(end - at)
    return one


class Reading(unittest.TestCase):
    def test_times_of_requests_do_not_count_the_wait_for_the_one_before(self):
        times = [time for _, own in predict.by_application(row(1, lambda number: 15.0)) for time in own]
        self.assertGreater(len(times), 100)
        for time in times:
            self.assertAlmostEqual(time, 15)

    def test_latencies_are_told_apart_by_application(self):
        found = list(predict.by_application(row(28, lambda number: 1.0 + number)))
        self.assertEqual([name for name, _ in found], list(predict.APPLICATIONS) * 2)
        for number, (_, times) in enumerate(found):
            self.assertAlmostEqual(min(times), 1 + number)
            self.assertAlmostEqual(max(times), 1 + number)

    def test_arrivals_that_do_not_belong_to_the_latencies_are_an_error(self):
        one = row(1, lambda number: 1.0)
        with self.assertRaises(ValueError):
            predict.service_times(one, one["latencies"][1:], 0)


class JobFiles(unittest.TestCase):
    def setUp(self):
        self.alone = {(each.pop("kind"), each.pop("name")): each for each in predict.rows_of(predict.ALONE)}

    def test_every_measured_mix_has_its_inputs(self):
        for each in predict.rows_of(predict.MEASURED):
            mix = (each["requests"], float(each["per_s"]), each["beside"])
            header, *jobs = predict.job_file(mix, each["way"], self.alone, 0.1).splitlines()
            self.assertEqual(len(jobs), (42 if mix[0] == "crowd" else 1) + (1 if mix[2] else 0))
            self.assertEqual({job.count(",") for job in jobs}, {header.count(",")})

    def test_a_training_keeps_the_device_busy_unless_it_is_bound_by_launches(self):
        resnet50, mlp = (predict.training_job(name, 100, 0.25, 1).split(",")[8:10] for name in ("resnet50", "mlp"))
        self.assertEqual([list(map(float, times)) for times in (resnet50, mlp)], [[10, 0], [2.5, 10]])

    def test_launches_take_longer_under_salus(self):
        slower = predict.LAUNCHES_UNDER_SALUS
        times = {way: float(predict.job_file(("resnet50", 20.0, ""), way, self.alone, 0.1).split()[-1])
                 for way in ("slicing", "Salus")}
        self.assertAlmostEqual(times["Salus"], slower * times["slicing"], places=2)


if __name__ == "__main__":
    unittest.main()
