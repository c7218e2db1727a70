// The source of the job's memory and turns: Salus or, with --alone, ordinary memory and no turns.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "job/memory_check.h"
#include "job/options.h"
#include "salus/salus.h"

namespace salus::job {

/// A failure ends the process with one line. Any thread may call.
class Runtime {
public:
    explicit Runtime(const Options& options);
    ~Runtime();
    Runtime(const Runtime&) = delete;
    Runtime& operator=(const Runtime&) = delete;

    void begin();
    void end();
    Memory allocate(std::size_t size, salus_kind kind);
    void release(Memory memory);
    salus_counters counters();

    /// For a child process: does what a careless child might do. False if it could not get memory of its own.
    bool try_in_child(Memory inherited);

private:
    Memory allocate_ordinary(std::size_t size);

    std::string speaker_;
    salus_client* client_ = nullptr;  ///< null: alone
    bool joined_ = false;             ///< it is a job of its own
    std::mutex mutex_;
    std::map<std::size_t, std::vector<void*>> free_;  ///< alone only: what was released, by size
};

}  // namespace salus::job
