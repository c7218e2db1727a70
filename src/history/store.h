// What is remembered of commands that have run: an SQLite file, one row for each command of each user.
//
// What is stored orders and estimates, it never refuses anything: so a file that is broken, or a write that fails, costs
// knowledge and nothing else. Several processes may have the file open; one thread uses a Store.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/run_figures.h"
#include "base/time.h"
#include "history/command.h"

struct sqlite3;

namespace salus::history {

inline constexpr const char* kFileName = "history.db";
/// So many commands of a user are kept, those that ran last.
inline constexpr std::uint64_t kCommandsMax = 10'000;

using Figures = RunFigures;

/// A command that has ended.
struct Run {
    unsigned uid = 0;
    CommandKeys keys;
    std::string command;  ///< to be shown
    Figures figures;
    Duration took;
    double ended_at_s = 0;  ///< Unix time
    int status = 0;         ///< its exit status, or 128 + the signal that ended it
};

/// All that is known of a command. Figures and `took` are of the last run that ended well, if one did.
struct Record {
    Run last;
    std::uint64_t runs = 0;
};

class Store {
public:
    struct Opened {
        std::unique_ptr<Store> store;  ///< none: nothing can be remembered
        std::string remark;            ///< one line about what was found wrong; empty: nothing
    };
    /// For the service: makes the file if there is none, and another if it is broken, which is then set aside. A file of a
    /// newer version is left alone. No call takes longer than `patience` because others use the file.
    static Opened open_or_replace(const std::string& path, Duration patience, std::uint64_t commands_max = kCommandsMax);
    /// A file that is there, as it is.
    static Result<std::unique_ptr<Store>> open(const std::string& path, Duration patience);

    /// Adds a run to what is known of its command. A run that failed is counted, but does not change a known length.
    Result<bool> record(const Run& run);

    /// Of the command, else of the latest run of the same program with other arguments; zeros: nothing is known.
    Result<Figures> find(unsigned uid, CommandKeys keys);

    /// Of one user, or all; the latest first.
    Result<std::vector<Record>> list(std::optional<unsigned> uid);

    /// Forgets the commands whose text contains `part`; empty: all. How many there were.
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
    Fault prepare(std::string& why);
    bool execute(const char* sql);
    bool upsert(const Run& run);
    bool trim(unsigned uid);
    Error error() const;

    Database database_;
    std::uint64_t commands_max_ = kCommandsMax;
};

}  // namespace salus::history
