// The flavour of each stream function in which the null stream is the calling thread's own.
#include "tests/standin/state.h"

namespace salus::standin {

Status launch_per_thread(Kernel kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                         unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters,
                         void** extra) {
    const PerThreadFlavour here;
    return launch(kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters, extra);
}

Status launch_configured_per_thread(const LaunchConfiguration* configuration, Kernel kernel, void** parameters,
                                    void** extra) {
    const PerThreadFlavour here;
    return launch_configured(configuration, kernel, parameters, extra);
}

Status launch_cooperative_per_thread(Kernel kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                                     unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream,
                                     void** parameters) {
    const PerThreadFlavour here;
    return launch_cooperative(kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters);
}

Status launch_graph_per_thread(RunnableGraph runnable, Stream stream) {
    const PerThreadFlavour here;
    return launch_graph(runnable, stream);
}

Status launch_host_function_per_thread(Stream stream, void (*function)(void*), void* data) {
    const PerThreadFlavour here;
    return launch_host_function(stream, function, data);
}

Status copy_to_device_per_thread(Address to, const void* from, std::size_t size) {
    const PerThreadFlavour here;
    return copy_to_device(to, from, size);
}

Status copy_to_host_per_thread(void* to, Address from, std::size_t size) {
    const PerThreadFlavour here;
    return copy_to_host(to, from, size);
}

Status copy_to_device_async_per_thread(Address to, const void* from, std::size_t size, Stream stream) {
    const PerThreadFlavour here;
    return copy_to_device_async(to, from, size, stream);
}

Status copy_to_host_async_per_thread(void* to, Address from, std::size_t size, Stream stream) {
    const PerThreadFlavour here;
    return copy_to_host_async(to, from, size, stream);
}

Status set_bytes_per_thread(Address start, unsigned char value, std::size_t size) {
    const PerThreadFlavour here;
    return set_bytes(start, value, size);
}

Status set_bytes_async_per_thread(Address start, unsigned char value, std::size_t size, Stream stream) {
    const PerThreadFlavour here;
    return set_bytes_async(start, value, size, stream);
}

Status allocate_async_per_thread(Address* start, std::size_t size, Stream stream) {
    const PerThreadFlavour here;
    return allocate_async(start, size, stream);
}

Status free_async_per_thread(Address start, Stream stream) {
    const PerThreadFlavour here;
    return free_async(start, stream);
}

Status stream_query_per_thread(Stream stream) {
    const PerThreadFlavour here;
    return stream_query(stream);
}

Status stream_wait_value_per_thread(Stream stream, Address word, std::uint32_t value, unsigned flags) {
    const PerThreadFlavour here;
    return stream_wait_value(stream, word, value, flags);
}

Status stream_wait_value_v1_per_thread(Stream stream, Address word, std::uint32_t value, unsigned flags) {
    const PerThreadFlavour here;
    return stream_wait_value_v1(stream, word, value, flags);
}

Status stream_write_value_per_thread(Stream stream, Address word, std::uint32_t value, unsigned flags) {
    const PerThreadFlavour here;
    return stream_write_value(stream, word, value, flags);
}

Status stream_write_value_v1_per_thread(Stream stream, Address word, std::uint32_t value, unsigned flags) {
    const PerThreadFlavour here;
    return stream_write_value_v1(stream, word, value, flags);
}

Status capture_begin_per_thread(Stream stream, int mode) {
    const PerThreadFlavour here;
    return capture_begin(stream, mode);
}

Status capture_end_per_thread(Stream stream, Graph* graph) {
    const PerThreadFlavour here;
    return capture_end(stream, graph);
}

Status copy_on_device_per_thread(Address to, Address from, std::size_t size, Stream stream) {
    const PerThreadFlavour here;
    return copy_on_device(to, from, size, stream);
}

Status stream_synchronize_per_thread(Stream stream) {
    const PerThreadFlavour here;
    return stream_synchronize(stream);
}

Status stream_wait_event_per_thread(Stream stream, Event event, unsigned flags) {
    const PerThreadFlavour here;
    return stream_wait_event(stream, event, flags);
}

Status stream_is_capturing_per_thread(Stream stream, int* status) {
    const PerThreadFlavour here;
    return stream_is_capturing(stream, status);
}

Status event_record_per_thread(Event event, Stream stream) {
    const PerThreadFlavour here;
    return event_record(event, stream);
}

}  // namespace salus::standin
