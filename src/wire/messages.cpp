#include "wire/messages.h"

#include <type_traits>

namespace salus::wire {
namespace {

struct Header {
    std::uint32_t magic = kMagic;
    std::uint16_t version = kVersion;
    std::uint16_t type = 0;
};

constexpr std::size_t kBodyMax = kMessageSize - sizeof(Header);

template <std::size_t N>
bool clean(const Text<N>& text) {
    if (text.view().size() == N) return false;  // no NUL
    for (const char c : text.view()) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
    }
    return true;
}

template <typename T>
bool text_is_clean(const T& message) {
    if constexpr (std::is_same_v<T, Run>) {
        return clean(message.name) && clean(message.log) && clean(message.command);
    } else if constexpr (std::is_same_v<T, Attach>) {
        return clean(message.name) && clean(message.gpu);
    } else if constexpr (std::is_same_v<T, Wishes>) {
        return clean(message.devices);
    } else if constexpr (std::is_same_v<T, Start>) {
        return clean(message.gpu) && clean(message.mps);
    } else if constexpr (std::is_same_v<T, Running>) {
        return clean(message.device) && clean(message.gpu) && clean(message.mps);
    } else if constexpr (std::is_same_v<T, Waits>) {
        return clean(message.state) && clean(message.reason) && clean(message.behind);
    } else if constexpr (std::is_same_v<T, Welcome>) {
        return clean(message.device) && clean(message.gpu) && clean(message.page_directory);
    } else if constexpr (std::is_same_v<T, ClearHistory>) {
        return clean(message.part);
    } else if constexpr (std::is_same_v<T, UntoldEnd>) {
        return clean(message.command);
    } else if constexpr (requires { message.name; }) return clean(message.name);
    else if constexpr (requires { message.why; }) return clean(message.why);
    else if constexpr (requires { message.job.name; }) return clean(message.job.name);
    else return true;
}

template <std::size_t I = 0>
Result<Message> decode_body(const Header& header, const std::byte* body) {
    if constexpr (I == std::variant_size_v<Message>) {
        return Error{"unknown message type " + std::to_string(header.type)};
    } else {
        using T = std::variant_alternative_t<I, Message>;
        static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kBodyMax);
        if (header.type != T::kType) return decode_body<I + 1>(header, body);
        T message;
        if constexpr (!std::is_empty_v<T>) std::memcpy(static_cast<void*>(&message), body, sizeof(T));
        if (!text_is_clean(message)) return Error{"text with control characters or without an end"};
        return Message(message);
    }
}

}  // namespace

Packet encode(const Message& message) {
    Packet packet{};
    std::visit(
        [&]<typename T>(const T& body) {
            Header header;
            header.type = T::kType;
            std::memcpy(packet.data(), &header, sizeof header);
            if constexpr (!std::is_empty_v<T>) {
                std::memcpy(packet.data() + sizeof header, static_cast<const void*>(&body), sizeof body);
            }
        },
        message);
    return packet;
}

Message message_of(const Command& command) {
    return std::visit([](const auto& body) { return Message(body); }, command);
}

std::optional<Command> command_in(const Message& message) {
    return std::visit(
        [](const auto& body) -> std::optional<Command> {
            if constexpr (std::is_constructible_v<Command, decltype(body)>) return body;
            else return std::nullopt;
        },
        message);
}

std::uint16_t version_of(std::span<const std::byte> packet) {
    Header header;
    if (packet.size() < sizeof header) return 0;
    std::memcpy(&header, packet.data(), sizeof header);
    return header.magic == kMagic ? header.version : std::uint16_t{0};
}

Result<Message> decode(std::span<const std::byte> packet) {
    if (packet.size() != kMessageSize) return Error{"a message of " + std::to_string(packet.size()) + " bytes"};
    Header header;
    std::memcpy(&header, packet.data(), sizeof header);
    if (header.magic != kMagic) return Error{"not a Salus message"};
    if (header.version != kVersion) {
        return Error{"speaks protocol version " + std::to_string(header.version) + ", not " + std::to_string(kVersion)};
    }
    return decode_body(header, packet.data() + sizeof header);
}

}  // namespace salus::wire
