#include "history/store.h"

#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>

#include "os/file.h"

namespace salus::history {
namespace {

constexpr std::int64_t kVersion = 4;

/// Names every column that the code below uses, so that opening a file detects a table that lacks one.
constexpr const char* kSchema = R"(
    CREATE TABLE IF NOT EXISTS commands (
        uid INTEGER NOT NULL,
        command_key INTEGER NOT NULL,
        program_key INTEGER NOT NULL,
        command TEXT NOT NULL,
        runs INTEGER NOT NULL,
        iterations INTEGER NOT NULL,
        iteration_ns INTEGER NOT NULL,
        persistent INTEGER NOT NULL,
        ephemeral INTEGER NOT NULL,
        took_ns INTEGER NOT NULL,
        ended_at_s REAL NOT NULL,
        status INTEGER NOT NULL,
        interactive INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (uid, command_key)
    );
    CREATE INDEX IF NOT EXISTS by_program ON commands (uid, program_key);
    CREATE INDEX IF NOT EXISTS by_time ON commands (uid, ended_at_s);
    CREATE TABLE IF NOT EXISTS runs (
        uid INTEGER NOT NULL,
        command_key INTEGER NOT NULL,
        command TEXT NOT NULL,
        iterations INTEGER NOT NULL,
        device_s REAL NOT NULL,
        memory_time_gib_s REAL NOT NULL,
        took_s REAL NOT NULL,
        ended_at_s REAL NOT NULL,
        status INTEGER NOT NULL
    );
    CREATE INDEX IF NOT EXISTS runs_by_time ON runs (uid, ended_at_s);
    CREATE TABLE IF NOT EXISTS pairs (
        uid INTEGER NOT NULL,
        first_key INTEGER NOT NULL,
        second_key INTEGER NOT NULL,
        first_program INTEGER NOT NULL,
        second_program INTEGER NOT NULL,
        first_command TEXT NOT NULL,
        second_command TEXT NOT NULL,
        rate REAL NOT NULL,
        error REAL NOT NULL,
        measured_at_s REAL NOT NULL,
        mps INTEGER NOT NULL,
        PRIMARY KEY (uid, first_key, second_key, mps)
    );
    PRAGMA user_version = 4;
)";
constexpr const char* kFromVersion1 = "ALTER TABLE commands ADD COLUMN interactive INTEGER NOT NULL DEFAULT 0";
constexpr const char* kSelect =
    "SELECT uid, command_key, program_key, command, runs, iterations, iteration_ns, persistent, ephemeral, took_ns, "
    "ended_at_s, status, interactive FROM commands";
constexpr const char* kSelectPairs =
    "SELECT uid, first_key, second_key, first_program, second_program, first_command, second_command, rate, error, "
    "measured_at_s, mps FROM pairs";
/// total() and not sum(): the sum of what anybody may have written into the file must not overflow.
constexpr const char* kSelectUsage =
    "SELECT uid, max(command), count(*), total(iterations), total(device_s), total(memory_time_gib_s), total(took_s) "
    "FROM runs WHERE (?1 IS NULL OR uid = ?1) AND ended_at_s >= ?2 GROUP BY uid, command_key "
    "ORDER BY uid, total(device_s) DESC, max(ended_at_s) DESC";

/// One statement, from its binding to its last row.
class Statement {
public:
    Statement(sqlite3* database, const std::string& sql) {
        result_ = sqlite3_prepare_v2(database, sql.c_str(), -1, &statement_, nullptr);
    }
    ~Statement() { sqlite3_finalize(statement_); }
    Statement(const Statement&) = delete;
    Statement& operator=(const Statement&) = delete;

    Statement& bind(std::int64_t value) { return bound(sqlite3_bind_int64(statement_, ++bound_, value)); }
    Statement& bind(std::uint64_t value) { return bind(static_cast<std::int64_t>(value)); }
    Statement& bind(unsigned value) { return bind(static_cast<std::int64_t>(value)); }
    Statement& bind(int value) { return bind(static_cast<std::int64_t>(value)); }
    Statement& bind(double value) { return bound(sqlite3_bind_double(statement_, ++bound_, value)); }
    Statement& bind(std::string_view text) {
        return bound(sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT));
    }
    Statement& bind(const std::optional<unsigned>& value) {
        return value ? bind(*value) : bound(sqlite3_bind_null(statement_, ++bound_));
    }

    /// True: there is a row.
    bool step() {
        if (result_ == SQLITE_OK || result_ == SQLITE_ROW) result_ = sqlite3_step(statement_);
        return result_ == SQLITE_ROW;
    }
    /// Runs it to the end; false if something went wrong.
    bool run() {
        while (step()) continue;
        return ended_well();
    }
    bool ended_well() const { return result_ == SQLITE_DONE; }
    int result() const { return result_; }

    std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
    double real(int column) const { return sqlite3_column_double(statement_, column); }
    std::string text(int column) const {
        const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
        return bytes ? std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))) : "";
    }

private:
    Statement& bound(int result) {
        if (result_ == SQLITE_OK) result_ = result;
        return *this;
    }

    sqlite3_stmt* statement_ = nullptr;
    int result_ = SQLITE_OK;
    int bound_ = 0;
};

/// Figures come from clients' pages and from a file that anybody may have written: impossible ones count as unknown.
std::int64_t figure(std::int64_t value) { return value >= 0 && value <= std::int64_t{1} << 50 ? value : 0; }
std::uint64_t count(std::int64_t value) { return static_cast<std::uint64_t>(figure(value)); }
Duration span(std::int64_t ns) { return {std::max<std::int64_t>(ns, 0)}; }
/// Years of many devices fit in.
double amount(double value) { return std::isfinite(value) ? std::clamp(value, 0.0, 1e15) : 0; }
/// So many clients at once would be too many for any rate beyond.
double ratio(double value) { return std::isfinite(value) ? std::clamp(value, 0.0, 100.0) : 0; }
Duration span_of(double s) { return seconds_of(std::clamp(amount(s), 0.0, 9e9)); }
double moment(double s) { return std::isfinite(s) ? std::clamp(s, 0.0, 1e11) : 0; }

Record record_in(const Statement& row) {
    Record record;
    Run& run = record.last;
    run.uid = static_cast<unsigned>(row.integer(0));
    run.keys = {static_cast<std::uint64_t>(row.integer(1)), static_cast<std::uint64_t>(row.integer(2))};
    run.command = row.text(3);
    record.runs = count(row.integer(4));
    run.figures = {count(row.integer(5)),
                   {figure(row.integer(6))},
                   {figure(row.integer(7))},
                   {figure(row.integer(8))},
                   row.integer(12) != 0};
    run.took = span(row.integer(9));
    run.ended_at_s = moment(row.real(10));
    run.status = static_cast<int>(row.integer(11));
    return record;
}

CommandPair pair_in(const Statement& row) {
    CommandPair pair;
    pair.uid = static_cast<unsigned>(row.integer(0));
    pair.first = {static_cast<std::uint64_t>(row.integer(1)), static_cast<std::uint64_t>(row.integer(3))};
    pair.second = {static_cast<std::uint64_t>(row.integer(2)), static_cast<std::uint64_t>(row.integer(4))};
    pair.first_command = row.text(5);
    pair.second_command = row.text(6);
    pair.rate = ratio(row.real(7));
    pair.error = ratio(row.real(8));
    pair.measured_at_s = moment(row.real(9));
    pair.mps = row.integer(10) != 0;
    return pair;
}

void turn_round(CommandPair& pair) {
    std::swap(pair.first, pair.second);
    std::swap(pair.first_command, pair.second_command);
}

Usage usage_in(const Statement& row) {
    return {static_cast<unsigned>(row.integer(0)),
            row.text(1),
            count(row.integer(2)),
            static_cast<std::uint64_t>(amount(row.real(3))),
            {amount(row.real(4)), amount(row.real(5))},
            span_of(row.real(6))};
}

bool is_broken(int result) {
    const int primary = result & 0xff;
    // An error in one of our statements means that the tables are not as expected.
    return primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB || primary == SQLITE_ERROR;
}

/// Also moves the files that belong to it: the next database must not find them.
void set_aside(const std::string& path) {
    std::rename(path.c_str(), (path + ".broken").c_str());
    for (const char* suffix : {"-wal", "-shm"}) ::unlink((path + suffix).c_str());
}

}  // namespace

void Store::Close::operator()(sqlite3* database) const { sqlite3_close(database); }

// ---------------------------------------------------------------------------------------------------------- opening

Store::Opened Store::open_or_replace(const std::string& path, Duration patience, std::uint64_t commands_max,
                                     std::uint64_t runs_max) {
    // Private to the user, because commands may contain secrets.
    if (!os::open_file(path, os::Open::kReadWrite)) return {nullptr, path + ": " + std::strerror(errno)};
    Opened opened;
    Attempt made = attempt(path, patience);
    if (made.fault == Fault::kBroken) {
        set_aside(path);
        opened.remark = made.why + "; moved it to " + path + ".broken and started a new one";
        os::open_file(path, os::Open::kReadWrite);
        made = attempt(path, patience);
    }
    if (!made.store) {
        opened.remark = made.why;
    } else {
        made.store->commands_max_ = commands_max;
        made.store->runs_max_ = runs_max;
    }
    opened.store = std::move(made.store);
    return opened;
}

Result<std::unique_ptr<Store>> Store::open(const std::string& path, Duration patience) {
    Attempt made = attempt(path, patience);
    if (!made.store) return Error{made.why};
    return std::move(made.store);
}

Store::Attempt Store::attempt(const std::string& path, Duration patience) {
    sqlite3* raw = nullptr;
    const int opened = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
    Attempt made;
    made.store = std::unique_ptr<Store>(new Store(Database(raw)));
    made.fault = Fault::kOther;
    if (opened == SQLITE_OK) {
        sqlite3_busy_timeout(raw, static_cast<int>(patience.ns / 1'000'000));
        made.fault = made.store->prepare(made.why);
    }
    if (made.fault == Fault::kNone) return made;
    if (made.why.empty()) made.why = raw ? sqlite3_errmsg(raw) : "out of memory";
    made.why = path + ": " + made.why;
    made.store.reset();
    return made;
}

/// Creates the tables, or checks existing ones. The version is read again inside the transaction: others may be doing the
/// same.
Store::Fault Store::prepare(std::string& why) {
    const std::optional<std::int64_t> version = read_version();
    if (!version) return is_broken(sqlite3_extended_errcode(database_.get())) ? Fault::kBroken : Fault::kOther;
    if (*version > kVersion) {
        why = "it has a newer version and is left alone";
        return Fault::kNewer;
    }
    // With WAL, others may read while one writes; on a file system without it, everything else still works.
    execute("PRAGMA journal_mode = WAL");
    execute("PRAGMA synchronous = NORMAL");
    Statement check(database_.get(), "PRAGMA quick_check(1)");
    const bool whole = check.step() && check.text(0) == "ok";
    if (!whole && (check.result() == SQLITE_ROW || is_broken(check.result()))) {
        why = "it is damaged";
        return Fault::kBroken;
    }
    if (!check.run() || !execute("BEGIN IMMEDIATE")) return Fault::kOther;
    const bool is_version_1 = read_version() == 1;
    const bool made = (!is_version_1 || execute(kFromVersion1)) && execute(kSchema);
    const int result = sqlite3_extended_errcode(database_.get());
    if (!made) why = sqlite3_errmsg(database_.get());
    if (!execute(made ? "COMMIT" : "ROLLBACK") || !made) return is_broken(result) ? Fault::kBroken : Fault::kOther;
    for (const char* select : {kSelect, kSelectUsage, kSelectPairs}) {
        const Statement columns(database_.get(), select);
        if (!is_broken(columns.result())) continue;
        why = "its tables are not those of Salus";
        return Fault::kBroken;
    }
    return Fault::kNone;
}

/// Nothing if it cannot be read. The statement ends here: it would keep the file locked.
std::optional<std::int64_t> Store::read_version() {
    Statement version(database_.get(), "PRAGMA user_version");
    if (!version.step()) return std::nullopt;
    const std::int64_t found = version.integer(0);
    static_cast<void>(version.run());
    return found;
}

bool Store::execute(const char* sql) { return sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK; }

Error Store::error() const { return Error{std::string("history: ") + sqlite3_errmsg(database_.get())}; }

// ------------------------------------------------------------------------------------------------------------- using

Result<bool> Store::record(const Run& run) {
    if (!execute("BEGIN IMMEDIATE")) return error();
    if (upsert(run) && add(run) && trim(run.uid) && execute("COMMIT")) return true;
    const Error why = error();
    execute("ROLLBACK");
    return why;
}

/// Figures are replaced as a whole, by those of the last successful run or, if there is none, of the last run.
bool Store::upsert(const Run& run) {
    const bool complete = run.status == 0 && run.figures.iterations > 0;
    Statement statement(database_.get(), R"(
        INSERT INTO commands VALUES (?1, ?2, ?3, ?4, 1, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
        ON CONFLICT (uid, command_key) DO UPDATE SET
            program_key = excluded.program_key, command = excluded.command, runs = runs + 1,
            ended_at_s = excluded.ended_at_s, status = excluded.status, interactive = excluded.interactive,
            iteration_ns = iif(excluded.iterations > 0 OR iterations = 0, excluded.iteration_ns, iteration_ns),
            persistent = iif(excluded.iterations > 0 OR iterations = 0, excluded.persistent, persistent),
            ephemeral = iif(excluded.iterations > 0 OR iterations = 0, excluded.ephemeral, ephemeral),
            took_ns = iif(excluded.iterations > 0 OR iterations = 0, excluded.took_ns, took_ns),
            iterations = iif(excluded.iterations > 0, excluded.iterations, iterations))");
    statement.bind(run.uid).bind(run.keys.command).bind(run.keys.program).bind(std::string_view(run.command));
    statement.bind(complete ? figure(static_cast<std::int64_t>(run.figures.iterations)) : 0);
    statement.bind(figure(run.figures.iteration_time.ns));
    statement.bind(figure(run.figures.persistent.count)).bind(figure(run.figures.ephemeral.count));
    statement.bind(span(run.took.ns).ns).bind(moment(run.ended_at_s)).bind(run.status);
    statement.bind(run.figures.interactive ? 1 : 0);
    return statement.run();
}

bool Store::add(const Run& run) {
    Statement statement(database_.get(), "INSERT INTO runs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
    statement.bind(run.uid).bind(run.keys.command).bind(std::string_view(run.command));
    statement.bind(figure(static_cast<std::int64_t>(run.figures.iterations)));
    statement.bind(amount(run.use.device_s)).bind(amount(run.use.memory_time_gib_s));
    return statement.bind(span(run.took.ns).seconds()).bind(moment(run.ended_at_s)).bind(run.status).run();
}

bool Store::trim(unsigned uid) {
    Statement runs(database_.get(), R"(
        DELETE FROM runs WHERE rowid IN
            (SELECT rowid FROM runs WHERE uid = ?1 ORDER BY ended_at_s DESC, rowid DESC LIMIT -1 OFFSET ?2))");
    if (!runs.bind(uid).bind(runs_max_).run()) return false;
    Statement statement(database_.get(), R"(
        DELETE FROM commands WHERE rowid IN
            (SELECT rowid FROM commands WHERE uid = ?1 ORDER BY ended_at_s DESC, rowid DESC LIMIT -1 OFFSET ?2))");
    return statement.bind(uid).bind(commands_max_).run();
}

Result<bool> Store::record(CommandPair pair) {
    if (pair.second.command < pair.first.command) turn_round(pair);
    if (!execute("BEGIN IMMEDIATE")) return error();
    if (put(pair) && trim_pairs(pair.uid) && execute("COMMIT")) return true;
    const Error why = error();
    execute("ROLLBACK");
    return why;
}

bool Store::put(const CommandPair& pair) {
    Statement statement(database_.get(),
                        "INSERT OR REPLACE INTO pairs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)");
    statement.bind(pair.uid).bind(pair.first.command).bind(pair.second.command);
    statement.bind(pair.first.program).bind(pair.second.program);
    statement.bind(std::string_view(pair.first_command)).bind(std::string_view(pair.second_command));
    statement.bind(ratio(pair.rate)).bind(ratio(pair.error)).bind(moment(pair.measured_at_s));
    return statement.bind(pair.mps ? 1 : 0).run();
}

bool Store::trim_pairs(unsigned uid) {
    Statement statement(database_.get(), R"(
        DELETE FROM pairs WHERE rowid IN
            (SELECT rowid FROM pairs WHERE uid = ?1 ORDER BY measured_at_s DESC, rowid DESC LIMIT -1 OFFSET ?2))");
    return statement.bind(uid).bind(commands_max_).run();
}

Result<std::vector<CommandPair>> Store::pairs_with(unsigned uid, CommandKeys keys) {
    Statement statement(database_.get(), std::string(kSelectPairs) +
                                             " WHERE uid = ?1 AND (first_program = ?2 OR second_program = ?2)"
                                             " ORDER BY (first_key = ?3 OR second_key = ?3) DESC, measured_at_s DESC");
    statement.bind(uid).bind(keys.program).bind(keys.command);
    std::vector<CommandPair> pairs;
    while (statement.step()) {
        CommandPair pair = pair_in(statement);
        const auto is_it = [&](const CommandKeys& key) { return key.command == keys.command; };
        const bool is_second = !is_it(pair.first) && (is_it(pair.second) || pair.first.program != keys.program);
        if (is_second) turn_round(pair);
        pairs.push_back(std::move(pair));
    }
    if (!statement.ended_well()) return error();
    return pairs;
}

Result<bool> Store::mps_helps(unsigned uid) {
    constexpr double kWorthIt = 1.05;
    Statement statement(database_.get(), R"(
        SELECT count(*), avg(served.rate), avg(max(coalesce(plain.rate, 1), 1)) FROM pairs AS served LEFT JOIN pairs AS plain
            ON plain.uid = served.uid AND plain.first_key = served.first_key AND plain.second_key = served.second_key
            AND plain.mps = 0 WHERE served.uid = ?1 AND served.mps = 1)");
    statement.bind(uid);
    if (!statement.step()) return error();
    return statement.integer(0) > 0 && ratio(statement.real(1)) > kWorthIt * ratio(statement.real(2));
}

Result<std::vector<CommandPair>> Store::pairs(std::optional<unsigned> uid) {
    Statement statement(database_.get(),
                        std::string(kSelectPairs) + " WHERE ?1 IS NULL OR uid = ?1 ORDER BY measured_at_s DESC, rowid DESC");
    statement.bind(uid);
    std::vector<CommandPair> pairs;
    while (statement.step()) pairs.push_back(pair_in(statement));
    if (!statement.ended_well()) return error();
    return pairs;
}

Result<Figures> Store::find(unsigned uid, CommandKeys keys) {
    Statement statement(database_.get(), std::string(kSelect) +
                                             " WHERE uid = ?1 AND program_key = ?2 AND (iterations > 0 OR interactive)"
                                             " ORDER BY command_key = ?3 DESC, ended_at_s DESC LIMIT 1");
    statement.bind(uid).bind(keys.program).bind(keys.command);
    if (statement.step()) {
        const Run run = record_in(statement).last;
        Figures figures = run.figures;
        if (run.keys.command == keys.command && !figures.interactive) return figures;
        figures.iterations = 0;
        figures.iteration_time = {};
        return figures;
    }
    if (!statement.ended_well()) return error();
    return Figures{};
}

Result<std::vector<Record>> Store::list(std::optional<unsigned> uid) {
    Statement statement(database_.get(),
                        std::string(kSelect) + " WHERE ?1 IS NULL OR uid = ?1 ORDER BY ended_at_s DESC, rowid DESC");
    statement.bind(uid);
    std::vector<Record> records;
    while (statement.step()) records.push_back(record_in(statement));
    if (!statement.ended_well()) return error();
    const Result<std::vector<CommandPair>> measured = pairs(uid);
    if (!measured) return Error{measured.error()};
    std::map<std::pair<unsigned, std::uint64_t>, std::vector<Beside>> beside;
    for (const CommandPair& pair : measured.value()) {
        beside[{pair.uid, pair.first.command}].push_back({pair.second_command, pair.rate, pair.mps});
        if (pair.first.command != pair.second.command)
            beside[{pair.uid, pair.second.command}].push_back({pair.first_command, pair.rate, pair.mps});
    }
    for (Record& record : records) {
        const auto found = beside.find({record.last.uid, record.last.keys.command});
        if (found != beside.end()) record.beside = std::move(found->second);
    }
    return records;
}

Result<std::vector<Usage>> Store::usage(std::optional<unsigned> uid, double since_s) {
    Statement statement(database_.get(), kSelectUsage);
    statement.bind(uid).bind(since_s);
    std::vector<Usage> all;
    while (statement.step()) all.push_back(usage_in(statement));
    if (!statement.ended_well()) return error();
    return all;
}

Result<std::uint64_t> Store::clear(std::optional<unsigned> uid, std::string_view part) {
    Statement pairs(database_.get(),
                    "DELETE FROM pairs WHERE (?1 IS NULL OR uid = ?1) AND (?2 = '' OR "
                    "instr(first_command, ?2) > 0 OR instr(second_command, ?2) > 0)");
    if (!pairs.bind(uid).bind(part).run()) return error();
    for (const char* table : {"runs", "commands"}) {
        Statement statement(database_.get(), std::string("DELETE FROM ") + table +
                                                 " WHERE (?1 IS NULL OR uid = ?1) AND (?2 = '' OR instr(command, ?2) > 0)");
        statement.bind(uid).bind(part);
        if (!statement.run()) return error();
    }
    return static_cast<std::uint64_t>(sqlite3_changes(database_.get()));
}

}  // namespace salus::history
