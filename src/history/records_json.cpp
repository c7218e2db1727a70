#include "history/records_json.h"

#include <charconv>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/client_class.h"

namespace salus::history {
namespace {

using nlohmann::json;

template <typename T>
void read(const json& row, const char* key, T& value) {
    const auto found = row.find(key);
    if (found == row.end()) return;
    const bool is_text = std::is_same_v<T, std::string>;
    if (is_text ? found->is_string() : found->is_number()) value = found->get<T>();
}

Duration seconds_in(const json& row, const char* key) {
    constexpr double kLongest_s = 9e9;
    double time_s = 0;
    read(row, key, time_s);
    return time_s >= 0 && time_s <= kLongest_s ? seconds_of(time_s) : Duration{};
}

/// 0: none. As text, because readers of JSON may round large numbers.
std::uint64_t key_in(const json& row) {
    std::string text;
    read(row, "key", text);
    std::uint64_t key = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), key, 16);
    return error == std::errc{} && end == text.data() + text.size() ? key : 0;
}

}  // namespace

json records_json(const std::vector<Record>& records) {
    json rows = json::array();
    for (const Record& record : records) {
        const Run& run = record.last;
        rows.push_back({{"command", run.command},
                        {"key", fmt::format("{:016x}", run.keys.command)},
                        {"user", run.uid},
                        {"runs", record.runs},
                        {"iterations", run.figures.iterations},
                        {"iteration_s", run.figures.iteration_time.seconds()},
                        {"persistent", run.figures.persistent.count},
                        {"ephemeral", run.figures.ephemeral.count},
                        {"class", name_of_class(run.figures.interactive)},
                        {"took_s", run.took.seconds()},
                        {"ended_at_s", run.ended_at_s},
                        {"status", run.status}});
        for (const Beside& other : record.beside)
            rows.back()["beside"].push_back({{"command", other.command}, {"rate", other.rate}, {"mps", other.mps}});
    }
    return rows;
}

std::vector<Record> records_from(const json& document) {
    std::vector<Record> records;
    if (!document.is_array()) return records;
    for (const json& row : document) {
        if (!row.is_object()) continue;
        Record& record = records.emplace_back();
        Run& run = record.last;
        std::string job_class;
        read(row, "command", run.command);
        run.keys.command = key_in(row);
        read(row, "user", run.uid);
        read(row, "runs", record.runs);
        read(row, "iterations", run.figures.iterations);
        run.figures.iteration_time = seconds_in(row, "iteration_s");
        read(row, "persistent", run.figures.persistent.count);
        read(row, "ephemeral", run.figures.ephemeral.count);
        read(row, "class", job_class);
        run.figures.interactive = job_class == name_of_class(true);
        run.took = seconds_in(row, "took_s");
        read(row, "ended_at_s", run.ended_at_s);
        read(row, "status", run.status);
        const auto beside = row.find("beside");
        if (beside == row.end() || !beside->is_array()) continue;
        for (const json& one : *beside) {
            Beside& other = record.beside.emplace_back();
            if (!one.is_object()) continue;
            read(one, "command", other.command);
            read(one, "rate", other.rate);
            other.mps = one.value("mps", false);
        }
    }
    return records;
}

json usage_json(const std::vector<Usage>& usage) {
    json rows = json::array();
    for (const Usage& part : usage) {
        rows.push_back({{"uid", part.uid},
                        {"command", part.command},
                        {"jobs", part.jobs},
                        {"iterations", part.iterations},
                        {"device_s", part.use.device_s},
                        {"memory_time_gib_s", part.use.memory_time_gib_s},
                        {"took_s", part.took.seconds()}});
    }
    return rows;
}

std::vector<Usage> usage_from(const json& document) {
    std::vector<Usage> usage;
    if (!document.is_array()) return usage;
    for (const json& row : document) {
        if (!row.is_object()) continue;
        Usage& part = usage.emplace_back();
        read(row, "uid", part.uid);
        read(row, "command", part.command);
        read(row, "jobs", part.jobs);
        read(row, "iterations", part.iterations);
        read(row, "device_s", part.use.device_s);
        read(row, "memory_time_gib_s", part.use.memory_time_gib_s);
        part.took = seconds_in(row, "took_s");
    }
    return usage;
}

}  // namespace salus::history
