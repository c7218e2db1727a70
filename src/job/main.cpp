// salus-job: a native program that behaves like a deep-learning job and proves that nobody else touches its memory.
#include <cstdio>
#include <string>
#include <vector>

#include "job/job.h"
#include "job/options.h"
#include "job/report.h"
#include "job/work.h"
#include "os/clock.h"
#include "os/file.h"

namespace {

using namespace salus::job;

void print(const std::string& text) {
    if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) fail(kFailed, "cannot write to standard output");
}

void write_report(const std::string& path, const std::string& text) {
    if (path == "-") return print(text);
    const auto written = salus::os::write_file(path, text);
    if (!written) fail(kFailed, written.error());
}

void measure(const Options& options, salus::Instant start) {
    std::vector<double> times = run_job(options, start).iteration_ms;
    times.erase(times.begin(), times.begin() + kWarmUp);
    std::printf("%.3f\n", percentile(times, 50));
}

void run(const Options& options, salus::Instant start) {
    const Run run = run_job(options, start);
    if (!options.report.empty()) write_report(options.report, report(options, run));
    // A report on standard output is to be read by a program.
    if (!options.quiet && options.report != "-") print(summary(options, run) + "\n");
}

}  // namespace

int main(int argc, char** argv) {
    const salus::Instant start = salus::os::now();
    const salus::Result<Options> options = read_options(argc, argv);
    if (!options) fail(kUsage, options.error());
    switch (options.value().mode) {
        case Mode::kHelp: print(options.value().help); break;
        case Mode::kCalibrate: std::printf("%.1f\n", units_per_millisecond()); break;
        case Mode::kMeasure: measure(options.value(), start); break;
        case Mode::kRun: run(options.value(), start); break;
    }
    print("");
    return 0;
}
