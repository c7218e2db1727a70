"""What salus_ray tells Ray, without a Ray: the environment of workers, and resources by profiles."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "integrations", "ray"))
import salus_ray  # noqa: E402

MIB = 1 << 20


def profile(command, persistent, ephemeral):
    return '{"command":"%s","name":"ray","persistent":%d,"ephemeral":%d}\n' % (command, persistent * MIB, ephemeral * MIB)


class Trainer:
    pass


class Resources(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def file(self, name, text, mode=0o644):
        path = os.path.join(self.directory.name, name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def share_of(self, what, *profiles, **arguments):
        text = '{"salus_profiles":1,"capacity":%d,"lane":%d}\n' % (1000 * MIB, 200 * MIB) + "".join(profiles)
        return salus_ray.resources(what, profiles=self.file("profiles", text), **arguments)["num_gpus"]

    def test_are_the_part_that_the_most_of_its_runs_needed(self):
        known = profile("ray Trainer", 80, 100), profile("ray tune Trainer", 200, 10), profile("ray Other", 700, 10)
        self.assertEqual(self.share_of(Trainer, *known), 0.25)
        self.assertEqual(self.share_of("Other", *known), 0.875)

    def test_are_rounded_up_to_what_ray_can_count(self):
        self.assertEqual(self.share_of(Trainer, profile("ray Trainer", 1, 1)), 0.0013)

    def test_are_a_whole_gpu_if_it_does_not_fit_beside_others(self):
        self.assertEqual(self.share_of(Trainer, profile("ray Trainer", 80, 201)), 1)
        self.assertEqual(self.share_of(Trainer, profile("ray Trainer", 801, 10)), 1)

    def test_are_those_stated_for_what_has_not_run(self):
        self.assertEqual(self.share_of(Trainer), 0.25)
        self.assertEqual(self.share_of(Trainer, otherwise=0.5), 0.5)

    def test_of_what_ray_has_wrapped_are_a_mistake(self):
        with self.assertRaisesRegex(TypeError, "before ray.remote"):
            salus_ray.resources(object())

    def test_come_from_this_node_if_no_file_is_named(self):
        lines = '{"salus_profiles":1,"capacity":200,"lane":100}\n{"command":"ray Trainer","persistent":50,"ephemeral":1}\n'
        salus = self.file("salus", "#!/bin/sh\n[ \"$*\" = 'profiles export' ] && cat <<'END'\n%sEND\n" % lines, 0o755)
        self.assertEqual(salus_ray.resources(Trainer, salus=salus), {"num_gpus": 0.5})

    def test_fail_with_what_salus_says(self):
        salus = self.file("salus", "#!/bin/sh\necho 'salus: no service runs' >&2\nexit 1\n", 0o755)
        for ask in (lambda: salus_ray.resources(Trainer, salus=salus), lambda: salus_ray.runtime_env(salus=salus)):
            with self.assertRaisesRegex(RuntimeError, "no service runs"):
                ask()

    def test_environment_extends_that_of_the_user(self):
        salus = self.file("salus", "#!/bin/sh\necho '{\"SALUS_SOCKET\": \"/s\", \"PYTHONPATH\": \"/salus:'$PYTHONPATH'\"}'\n", 0o755)
        given = {"pip": ["x"], "env_vars": {"OWN": "1", "PYTHONPATH": "/mine"}}
        result = salus_ray.runtime_env(given, salus=salus, SALUS_PRIORITY=5)
        self.assertEqual(result["pip"], ["x"])
        self.assertEqual(result["env_vars"], {"OWN": "1", "PYTHONPATH": "/salus:/mine", "SALUS_SOCKET": "/s", "SALUS_JOB": "",
                                              "SALUS_NAME": "", "SALUS_PRIORITY": "5"})
        self.assertEqual(given["env_vars"], {"OWN": "1", "PYTHONPATH": "/mine"})


if __name__ == "__main__":
    unittest.main()
