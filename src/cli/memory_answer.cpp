#include "cli/memory_answer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace salus::cli {
namespace {

using nlohmann::json;

template <typename T>
T value_in(const json& object, const char* key, T otherwise) {
    const auto found = object.find(key);
    if constexpr (std::is_same_v<T, std::string>) {
        return found != object.end() && found->is_string() ? found->get<T>() : otherwise;
    } else {
        return found != object.end() && found->is_number_integer() ? found->get<T>() : otherwise;
    }
}

std::string stay_text(const MemoryAnswer& answer) {
    const std::string because = answer.stays_because.empty() ? "" : ": " + answer.stays_because;
    return format_bytes(answer.stays) + " stay on the device" + because;
}

}  // namespace

MemoryAnswer memory_answer_from(std::string_view text) {
    const json object = json::parse(text, nullptr, false);
    MemoryAnswer answer;
    if (!object.is_object()) return answer;
    answer.job = value_in(object, "job", answer.job);
    answer.name = value_in(object, "name", answer.name);
    answer.clients = value_in(object, "clients", answer.clients);
    answer.goes = {value_in<std::int64_t>(object, "goes_bytes", 0)};
    answer.stays = {value_in<std::int64_t>(object, "stays_bytes", 0)};
    answer.stays_because = value_in(object, "stays_because", answer.stays_because);
    return answer;
}

std::string suspended_text(const MemoryAnswer& answer) {
    if (answer.clients == 0) return "is suspended; it begins when it is resumed";
    const std::string text = "is suspended after its current iteration";
    const bool goes = answer.goes > Bytes{}, stays = answer.stays > Bytes{};
    if (goes && stays) return fmt::format("{}; {} leave the device, {}", text, format_bytes(answer.goes), stay_text(answer));
    if (goes) return fmt::format("{}; {} leave the device", text, format_bytes(answer.goes));
    return stays ? fmt::format("{}, but its {}", text, stay_text(answer)) : text;
}

std::string idle_text(const MemoryAnswer& answer, Bytes out, bool moves) {
    if (answer.clients == 0 && out > Bytes{})
        return fmt::format("does not idle; {} are on the host already", format_bytes(out));
    if (answer.goes + answer.stays + out == Bytes{}) return "has no memory on the device";
    if (answer.clients == 0) return "does not idle; its memory stays on the device";
    if (moves) return fmt::format("idles; {} still leave the device", format_bytes(answer.goes));
    const bool stays = answer.stays > Bytes{};
    if (out > Bytes{} && stays) return fmt::format("idles; {} are on the host, {}", format_bytes(out), stay_text(answer));
    if (out > Bytes{}) return fmt::format("idles; {} are on the host", format_bytes(out));
    if (stays) return fmt::format("idles, but its {}", stay_text(answer));
    return fmt::format("idles, but its {} stay on the device: it may use them at any moment", format_bytes(answer.goes));
}

}  // namespace salus::cli
