#include "wire/framing.h"

#include <array>
#include <utility>

#include "os/socket.h"

namespace salus::wire {

static_assert(kDescriptorsMax <= os::kDescriptorsAtOnceMax);

bool send(int socket, const Message& message, std::span<const int> descriptors) {
    SALUS_CHECK(descriptors.size() <= kDescriptorsMax, "no message takes more descriptors");
    const Packet packet = encode(message);
    return os::send_packet(socket, packet, descriptors);
}

Received receive(int socket) {
    // One byte more than a message, to detect longer packets.
    std::array<std::byte, kMessageSize + 1> buffer;
    Received received;
    const os::Arrival arrival = os::receive_packet(socket, buffer, received.descriptors);
    if (arrival.kind == os::Arrival::Kind::kNothingNow) return received;
    received.kind = Received::Kind::kClosed;
    if (arrival.kind == os::Arrival::Kind::kClosed) return received;
    const std::span<const std::byte> packet(buffer.data(), arrival.size);
    Result<Message> message = decode(packet);
    if (message) {
        received.kind = Received::Kind::kMessage;
        received.message = std::move(message).value();
    } else {
        received.kind = Received::Kind::kGarbage;
        received.why = message.error();
        const std::uint16_t version = version_of(packet);
        received.other_version = version != 0 && version != kVersion;
    }
    return received;
}

}  // namespace salus::wire
