#include "history/profiles.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/python_command.h"
#include "base/text.h"
#include "history/records_json.h"

namespace salus::history {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "salus_profiles";
constexpr int kFormatVersion = 1;

std::string name_of(const std::string& command) {
    std::vector<std::string> words;
    for (const std::string_view word : split(command, ' ')) words.emplace_back(word);
    return name_of_command(words);
}

/// What tells commands apart, and orders them. The key knows the directory, too.
auto identity_of(const Profile& profile) {
    const Run& run = profile.record.last;
    return std::tie(run.uid, profile.name, run.command, run.keys.command);
}

std::string line_of(const Profile& profile) {
    json line = records_json({profile.record}).front();
    line["name"] = profile.name;
    line.erase("beside");
    return line.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace) + "\n";
}

Bytes bytes_in(const json& line, const char* key) {
    const auto found = line.find(key);
    return found != line.end() && found->is_number_integer() ? Bytes{found->get<std::int64_t>()} : Bytes{};
}

/// False: the line is neither a profile nor what GPUs have.
bool read_line(std::string_view text, Profiles& profiles) {
    const json line = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!line.is_object()) return false;
    if (line.contains(kFormat)) {
        const Profiles::Shares shares{bytes_in(line, "capacity"), bytes_in(line, "lane")};
        if (line[kFormat] != kFormatVersion || shares.lane <= Bytes{} || shares.capacity <= shares.lane) return false;
        merge(profiles, {shares, {}});
        return true;
    }
    const std::vector<Record> records = records_from(json::array({line}));
    const auto name = line.find("name");
    if (name == line.end() || !name->is_string() || records.front().last.figures.persistent <= Bytes{}) return false;
    profiles.all.push_back({name->get<std::string>(), records.front()});
    return true;
}

/// Both are of the same command.
void combine(Profile& into, const Profile& other) {
    const Figures a = into.record.last.figures, b = other.record.last.figures;
    const std::uint64_t runs = std::max(into.record.runs, other.record.runs);
    if (other.record.last.ended_at_s > into.record.last.ended_at_s) into = other;
    into.record.runs = runs;
    into.record.last.figures.persistent = std::max(a.persistent, b.persistent);
    into.record.last.figures.ephemeral = std::max(a.ephemeral, b.ephemeral);
}

}  // namespace

std::vector<Profile> profiles_of(const std::vector<Record>& records) {
    std::vector<Profile> profiles;
    for (const Record& record : records) {
        if (record.last.figures.persistent > Bytes{}) profiles.push_back({name_of(record.last.command), record});
    }
    return profiles;
}

void merge(Profiles& into, const Profiles& other) {
    if (!into.shares) into.shares = other.shares;
    else if (other.shares) {
        into.shares->capacity = std::min(into.shares->capacity, other.shares->capacity);
        into.shares->lane = std::min(into.shares->lane, other.shares->lane);
    }
    std::vector<Profile> all = std::move(into.all);
    all.insert(all.end(), other.all.begin(), other.all.end());
    std::ranges::stable_sort(all, [](const Profile& a, const Profile& b) { return identity_of(a) < identity_of(b); });
    into.all.clear();
    for (Profile& profile : all) {
        if (!into.all.empty() && identity_of(into.all.back()) == identity_of(profile)) combine(into.all.back(), profile);
        else into.all.push_back(std::move(profile));
    }
}

Result<Profiles> read_profiles(std::string_view text) {
    Profiles profiles;
    std::size_t number = 0;
    for (const std::string_view line : split(text, '\n')) {
        ++number;
        if (!trim(line).empty() && !read_line(line, profiles))
            return Error{fmt::format("line {} is not one that `salus profiles export` prints", number)};
    }
    Profiles merged;
    merge(merged, profiles);
    return merged;
}

std::string text_of(const Profiles& profiles) {
    std::string text;
    if (profiles.shares) {
        text += json{{kFormat, kFormatVersion},
                     {"capacity", profiles.shares->capacity.count},
                     {"lane", profiles.shares->lane.count}}
                    .dump() +
                "\n";
    }
    for (const Profile& profile : profiles.all) text += line_of(profile);
    return text;
}

}  // namespace salus::history
