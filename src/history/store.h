// The record of commands that have run: an SQLite file, one row for each command of each user, and one for each run.
//
// The record only orders and estimates; it never refuses anything. So a broken file or a failed write costs only knowledge.
// Several processes may have the file open; a Store belongs to one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/command.h"
#include "base/result.h"
#include "base/run_figures.h"
#include "base/time.h"

struct sqlite3;

namespace salus::history {

/// The status of a run whose end nobody saw.
inline constexpr int kStatusUnknown = -1;
inline constexpr const char* kFileName = "history.db";
/// This many commands of each user are kept, the latest ones.
inline constexpr std::uint64_t kCommandsMax = 10'000;
/// ... and this many runs of each user.
inline constexpr std::uint64_t kRunsMax = 100'000;

using Figures = RunFigures;

/// A command that has ended.
struct Run {
    unsigned uid = 0;
    CommandKeys keys;
    std::string command;  ///< as shown to users
    Figures figures;
    Duration took;
    double ended_at_s = 0;  ///< Unix time
    int status = 0;         ///< its exit status, or 128 + the signal that ended it; or kStatusUnknown
    RunUse use{};
};

/// A command beside which another has run at once; rate as in CommandPair.
struct Beside {
    std::string command;
    double rate = 1;
    bool mps = false;
};

/// All that is known about a command. Figures and `took` are those of the last successful run, if there is one.
struct Record {
    Run last;
    std::uint64_t runs = 0;
    std::vector<Beside> beside;  ///< latest first
};

/// What the runs of one command have used together.
struct Usage {
    unsigned uid = 0;
    std::string command;
    std::uint64_t jobs = 0;
    std::uint64_t iterations = 0;
    RunUse use;
    Duration took;
};

/// Two commands of a user that have run at once, which their service measured.
struct CommandPair {
    unsigned uid = 0;
    CommandKeys first, second;
    std::string first_command, second_command;  ///< as shown to users
    double rate = 1;                            ///< how fast they were, relative to taking turns
    double error = 0;                           ///< its standard error
    double measured_at_s = 0;                   ///< Unix time
    bool mps = false;                           ///< both used MPS; then and without are two measurements
};

class Store {
public:
    struct Opened {
        std::unique_ptr<Store> store;  ///< none: nothing can be recorded
        std::string remark;            ///< one line about a problem found; empty: none
    };
    /// For the service: creates the file if there is none. A broken file is set aside and replaced; a file of a newer
    /// version is left alone. No call waits longer than `patience` for other users of the file.
    static Opened open_or_replace(const std::string& path, Duration patience, std::uint64_t commands_max = kCommandsMax,
                                  std::uint64_t runs_max = kRunsMax);
    /// Opens an existing file, unchanged.
    static Result<std::unique_ptr<Store>> open(const std::string& path, Duration patience);

    /// Adds a run to the record of its command. A failed run is counted, but does not change a known length.
    Result<bool> record(const Run& run);

    /// What the next run may expect: the figures of the command, else P, T and class of the latest run of the same program
    /// with other arguments. Another run's arguments, and how long somebody used a server, say nothing of a length. Zeros:
    /// unknown.
    Result<Figures> find(unsigned uid, CommandKeys keys);

    /// Replaces what was known of these two; their order does not matter.
    Result<bool> record(CommandPair pair);
    /// Those of the command, or of the same program with other arguments; `first` is the one that was asked for. The
    /// command's own come first, then the latest.
    Result<std::vector<CommandPair>> pairs_with(unsigned uid, CommandKeys keys);
    /// Whether this user's pairs were faster with MPS: by more than a doubtful gain, and than without it.
    Result<bool> mps_helps(unsigned uid);
    /// Those of one user, or of all; latest first.
    Result<std::vector<CommandPair>> pairs(std::optional<unsigned> uid);

    /// The records of one user, or of all; latest first.
    Result<std::vector<Record>> list(std::optional<unsigned> uid);

    /// What the runs of one user, or of all, that ended at this Unix time or later have used; by user, then the command
    /// with most device time first.
    Result<std::vector<Usage>> usage(std::optional<unsigned> uid, double since_s);

    /// Forgets the commands, and their runs, whose text contains `part`; empty: all. Returns the number
    /// of commands.
    Result<std::uint64_t> clear(std::optional<unsigned> uid, std::string_view part);

private:
    struct Close {
        void operator()(sqlite3* database) const;
    };
    using Database = std::unique_ptr<sqlite3, Close>;
    enum class Fault { kNone, kBroken, kNewer, kOther };
    struct Attempt {
        std::unique_ptr<Store> store;
        Fault fault = Fault::kNone;
        std::string why;
    };

    explicit Store(Database database) : database_(std::move(database)) {}
    static Attempt attempt(const std::string& path, Duration patience);
    std::optional<std::int64_t> read_version();
    Fault prepare(std::string& why);
    bool execute(const char* sql);
    bool upsert(const Run& run);
    bool add(const Run& run);
    bool put(const CommandPair& pair);
    bool trim(unsigned uid);
    bool trim_pairs(unsigned uid);
    Error error() const;

    Database database_;
    std::uint64_t commands_max_ = kCommandsMax;
    std::uint64_t runs_max_ = kRunsMax;
};

}  // namespace salus::history
