#include "cli/top_command.h"

#include <langinfo.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <clocale>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/characters.h"
#include "base/check.h"
#include "cli/columns.h"
#include "cli/commands.h"
#include "cli/status_view.h"
#include "cli/top_keys.h"
#include "cli/top_view.h"
#include "os/clock.h"
#include "os/descriptor.h"
#include "os/poll.h"

#define NCURSES_NOMACROS  // `clear`, `move`, `erase` and the like as functions, not macros
#include <ncurses.h>

namespace salus::cli {
namespace {

constexpr std::array kEndingSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

// --------------------------------------------------------------------------------------------------------- signals

volatile sig_atomic_t ending_signal = 0;

/// The handlers of signals that end us only set a flag. These signals, and changes of the screen's size, are delivered only
/// while we wait, so that none is missed and none interrupts curses.
class Signals {
public:
    Signals() {
        ending_signal = 0;
        struct sigaction action {};
        action.sa_handler = [](int signal) { ending_signal = signal; };
        ::sigemptyset(&action.sa_mask);
        sigset_t blocked;
        ::sigemptyset(&blocked);
        ::sigaddset(&blocked, SIGWINCH);
        for (const int signal : kEndingSignals) ::sigaddset(&blocked, signal);
        ::pthread_sigmask(SIG_BLOCK, &blocked, &mask_before_);
        for (std::size_t i = 0; i < kEndingSignals.size(); ++i) ::sigaction(kEndingSignals[i], &action, &before_[i]);
        ::sigaction(SIGWINCH, nullptr, &resize_before_);
    }
    ~Signals() {
        // A pending signal is still ours: it is delivered before the old handlers are restored.
        ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
        for (std::size_t i = 0; i < kEndingSignals.size(); ++i) ::sigaction(kEndingSignals[i], &before_[i], nullptr);
        ::sigaction(SIGWINCH, &resize_before_, nullptr);
    }
    Signals(const Signals&) = delete;
    Signals& operator=(const Signals&) = delete;

    /// The signal mask to wait with.
    const sigset_t& open_mask() const { return mask_before_; }

private:
    sigset_t mask_before_{};
    std::array<struct sigaction, kEndingSignals.size()> before_{};
    struct sigaction resize_before_ {};
};

// ---------------------------------------------------------------------------------------------------------- asking

/// Asks the service in a thread of its own, so that a hanging service does not block us.
class Asker {
public:
    explicit Asker(TopService ask) : shared_(std::make_shared<Shared>()) {
        shared_->ask = std::move(ask);
        shared_->ready = os::Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (!shared_->ready) throw Failure{fmt::format("eventfd: {}", std::strerror(errno))};
        sigset_t all, before;
        ::sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, &before);  // the thread inherits the mask: signals go to the thread that waits
        thread_ = std::thread([shared = shared_] { shared->run(); });
        ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    ~Asker() {
        std::unique_lock lock(shared_->mutex);
        shared_->ending = true;
        shared_->changed.notify_all();
        const bool ended = shared_->changed.wait_for(lock, std::chrono::milliseconds(200), [&] { return shared_->ended; });
        lock.unlock();
        if (ended) thread_.join();
        else thread_.detach();  // it shares ownership of the data that it uses
    }
    Asker(const Asker&) = delete;
    Asker& operator=(const Asker&) = delete;

    /// Readable when there is an answer.
    int descriptor() const { return shared_->ready.get(); }
    /// False: the last question is still open.
    bool ask(std::optional<Pressed> order = {}) {
        const std::lock_guard lock(shared_->mutex);
        if (shared_->asked) return false;
        shared_->asked = true;
        shared_->order = std::move(order);
        shared_->changed.notify_all();
        return true;
    }
    /// Throws what `ask` threw.
    std::optional<TopAnswer> answer() {
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t got = ::read(shared_->ready.get(), &count, sizeof count);
        const std::lock_guard lock(shared_->mutex);
        if (shared_->failure) std::rethrow_exception(std::exchange(shared_->failure, nullptr));
        return std::exchange(shared_->answer, std::nullopt);
    }

private:
    struct Shared {
        TopService ask;
        os::Descriptor ready;
        std::mutex mutex;
        std::condition_variable changed;
        bool asked = false;
        std::optional<Pressed> order;
        bool ending = false;
        bool ended = false;
        std::optional<TopAnswer> answer;
        std::exception_ptr failure;

        void run() {
            std::unique_lock lock(mutex);
            for (;;) {
                changed.wait(lock, [&] { return asked || ending; });
                if (ending) break;
                const std::optional<Pressed> ordered = std::exchange(order, std::nullopt);
                lock.unlock();
                std::optional<TopAnswer> got;
                std::exception_ptr thrown;
                try {
                    got = ask(ordered);
                } catch (...) {
                    thrown = std::current_exception();
                }
                lock.lock();
                answer = std::move(got);
                failure = thrown;
                asked = false;
                constexpr std::uint64_t kOne = 1;
                [[maybe_unused]] const ssize_t put = ::write(ready.get(), &kOne, sizeof kOne);
            }
            ended = true;
            changed.notify_all();
        }
    };

    std::shared_ptr<Shared> shared_;
    std::thread thread_;
};

// -------------------------------------------------------------------------------------------------------- terminal

CheckHandler check_handler_before = nullptr;

/// The terminal while curses has it. One at a time.
class Terminal {
public:
    Terminal() {
        std::setlocale(LC_CTYPE, "");
        unicode_ = std::strcmp(::nl_langinfo(CODESET), "UTF-8") == 0;
        screen_ = ::newterm(nullptr, stdout, stdin);
        if (!screen_) complain_of_terminal();
        ::set_escdelay(25);                 // Esc is a key of its own here
        static char move_cursor[] = "cup";  // without it, curses would garble the screen
        if (const char* found = ::tigetstr(move_cursor); !found || found == reinterpret_cast<const char*>(-1)) {
            ::endwin();
            ::delscreen(screen_);
            complain_of_terminal();
        }
        check_handler_before = set_check_handler(give_back_and_fail);
        ::cbreak();
        ::noecho();
        ::nonl();
        ::keypad(stdscr, true);
        ::nodelay(stdscr, true);
        ::curs_set(0);
        const char* no_colour = std::getenv("NO_COLOR");
        const bool may_colour = !no_colour || *no_colour == '\0';
        coloured_ = may_colour && ::has_colors() && ::start_color() == OK;
        if (!coloured_) return;
        const short background = ::use_default_colors() == OK ? -1 : COLOR_BLACK;
        for (const auto& [pair, colour] : kColours) ::init_pair(pair, colour, background);
    }
    ~Terminal() {
        set_check_handler(check_handler_before);
        ::endwin();
        ::delscreen(screen_);
    }
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;

    bool unicode() const { return unicode_; }
    int width() const { return getmaxx(stdscr); }
    int height() const { return getmaxy(stdscr); }
    /// As in top_keys.h; nothing: no key was pressed.
    std::optional<int> key() {
        switch (const int key = ::wgetch(stdscr)) {
            case ERR: return std::nullopt;
            case KEY_UP: return kKeyUp;
            case KEY_DOWN: return kKeyDown;
            case KEY_PPAGE: return kKeyPageUp;
            case KEY_NPAGE: return kKeyPageDown;
            case KEY_HOME: return kKeyHome;
            case KEY_END: return kKeyEnd;
            case KEY_BACKSPACE: return kKeyBackspace;
            case KEY_ENTER: return kKeyEnter;
            default: return key;
        }
    }

    void show(const std::vector<Line>& lines) {
        ::werase(stdscr);
        for (std::size_t y = 0; y < lines.size(); ++y) {
            for (const Piece& piece : lines[y]) {
                const auto [attributes, pair] = look_of(piece.style);
                ::wattr_set(stdscr, attributes, pair, nullptr);
                const std::string text = unicode_ ? piece.text : ascii(piece.text);
                ::mvwaddstr(stdscr, static_cast<int>(y), piece.column, text.c_str());
            }
        }
        ::wattr_set(stdscr, A_NORMAL, 0, nullptr);
        ::wrefresh(stdscr);
    }

private:
    static constexpr short kGreen = 1, kYellow = 2, kRed = 3, kCyan = 4, kMagenta = 5, kBlue = 6;
    static constexpr std::array<std::pair<short, short>, 6> kColours = {{{kGreen, COLOR_GREEN},
                                                                         {kYellow, COLOR_YELLOW},
                                                                         {kRed, COLOR_RED},
                                                                         {kCyan, COLOR_CYAN},
                                                                         {kMagenta, COLOR_MAGENTA},
                                                                         {kBlue, COLOR_BLUE}}};

    [[noreturn]] static void complain_of_terminal() {
        const char* name = std::getenv("TERM");
        throw UsageError{fmt::format("top: this terminal (TERM={}) cannot show a full screen; salus ps lists jobs",
                                     name ? printable(name) : "")};
    }

    /// A failed check prints to standard error, which is invisible while curses has the screen.
    static void give_back_and_fail(const std::string& message) {
        ::endwin();
        check_handler_before(message);
    }

    std::pair<attr_t, short> look_of(Style style) const {
        const auto colour = [&](short pair) { return coloured_ ? pair : short{0}; };
        switch (style) {
            case Style::kPlain: return {A_NORMAL, 0};
            case Style::kBold: return {A_BOLD, 0};
            case Style::kDim: return {A_DIM, 0};
            case Style::kRunning: return {A_BOLD, colour(kGreen)};
            case Style::kWarning: return {A_NORMAL, colour(kYellow)};
            case Style::kError: return {A_BOLD, colour(kRed)};
            case Style::kBar: return {A_NORMAL, colour(kCyan)};
            case Style::kHeader: return {A_REVERSE, 0};
            case Style::kSorted: return {A_REVERSE | A_BOLD, colour(kCyan)};
            case Style::kJob1: return {A_BOLD, colour(kGreen)};
            case Style::kJob2: return {A_BOLD, colour(kYellow)};
            case Style::kJob3: return {A_BOLD, colour(kMagenta)};
            case Style::kJob4: return {A_BOLD, colour(kCyan)};
            case Style::kJob5: return {A_BOLD, colour(kBlue)};
        }
        return {A_NORMAL, 0};
    }

    /// One '?' for each column that the terminal has no character for.
    static std::string ascii(const std::string& text) {
        const bool plain =
            std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
        if (plain) return text;
        std::string out;
        for (std::size_t i = 0; i < text.size();) {
            std::size_t end = i + 1;
            while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) ++end;
            const std::string character = text.substr(i, end - i);
            out += character.size() == 1 ? character : std::string(static_cast<std::size_t>(width_of(character)), '?');
            i = end;
        }
        return out;
    }

    SCREEN* screen_ = nullptr;
    bool unicode_ = false;
    bool coloured_ = false;
};

// -------------------------------------------------------------------------------------------------------------- top

class Top {
public:
    Top(const TopService& ask, double interval_s) : asker_(ask), interval_(seconds_of(interval_s)) {
        options_.unicode = terminal_.unicode();
    }

    /// The signal that ended it; 0: the user.
    int run() {
        while (ending_signal == 0) {
            if (os::now() >= next_) look();
            draw();
            if (!wait()) break;
        }
        return ending_signal;
    }

private:
    void look() {
        const Instant now = os::now();
        next_ = now + interval_;
        if (asker_.ask(orders_.empty() ? std::nullopt : std::optional(orders_.front()))) {
            asked_at_ = now;
            if (!orders_.empty()) orders_.pop_front();
        } else if (now - asked_at_ >= kPatience) trouble_ = "the service does not answer; still trying";
    }

    void take_answer() {
        auto answer = asker_.answer();
        if (!answer) return;
        if (!orders_.empty()) next_ = os::now();
        if (!answer->said.empty()) options_.said = answer->said;
        if (!answer->status) {
            trouble_ = answer->status.error() + "; still trying";
            return;
        }
        status_ = std::move(answer->status).value();
        rates_.update(*status_);
        history_.update(*status_);
        trouble_.clear();
    }

    void draw() {
        options_.width = terminal_.width();
        options_.height = terminal_.height();
        if (!trouble_.empty()) terminal_.show(trouble_lines(trouble_, options_));
        else if (status_) terminal_.show(top_lines(*status_, rates_, history_, options_));
    }

    /// Waits until there is something to do. False: the user quits, or the terminal is gone.
    bool wait() {
        const Duration left = std::max(next_ - os::now(), Duration{});
        const int watched[] = {STDIN_FILENO, asker_.descriptor()};
        const std::uint32_t ready = os::readable_of(watched, left, &signals_.open_mask());
        if ((ready & 2) != 0) take_answer();
        bool any = false;
        while (const auto key = terminal_.key()) {  // also updates the size of the screen
            any = true;
            if (!act_on(*key)) return false;
        }
        const bool silent = (ready & 1) != 0 && !any;  // readable, but nothing to read: the terminal is gone
        silences_ = silent ? silences_ + 1 : 0;
        return silences_ < 10;
    }

    bool act_on(int key) {
        if (key == 'L' - '@') ::clearok(stdscr, true);  // Ctrl-L: redraws the whole screen
        const Pressed pressed = press(key, status_.value_or(Status{}), rates_, options_);
        if (pressed.command) {
            orders_.push_back(pressed);
            next_ = os::now();
        }
        return !pressed.quits;
    }

    static constexpr Duration kPatience = seconds(3);

    // Our handlers are set before curses starts, and removed after it ends; the thread ends first.
    Signals signals_;
    Terminal terminal_;
    Asker asker_;
    Duration interval_;
    Instant next_ = os::now();
    Instant asked_at_;
    TopOptions options_;
    Rates rates_;
    TopHistory history_;
    std::deque<Pressed> orders_;  ///< not passed on yet
    std::optional<Status> status_;
    std::string trouble_;
    int silences_ = 0;
};

}  // namespace

int run_top(const TopService& service, double interval_s) {
    if (::isatty(STDOUT_FILENO) != 1 || ::isatty(STDIN_FILENO) != 1)
        throw UsageError{"top: needs a terminal; salus ps lists jobs anywhere"};
    try {
        const int signal = Top(service, interval_s).run();
        return signal == 0 || signal == SIGINT ? 0 : 128 + signal;  // Ctrl-C also quits normally
    } catch (...) {
        throw;  // an uncaught exception would not unwind, and leave the terminal in curses' state
    }
}

}  // namespace salus::cli
