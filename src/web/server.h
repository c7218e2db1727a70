// Serves the web page: HTTP on a socket of this machine, by libevent, in one thread. Knows nothing of jobs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "os/descriptor.h"
#include "web/door.h"

namespace salus::web {

/// An answer; JSON unless it says otherwise.
struct Reply {
    int status = 200;
    std::string body;
    std::string type = "application/json";
};

/// Something that viewers are told while they look: an event of Server-sent events.
struct News {
    std::string name;
    std::string data;  ///< one line
};

/// What the page shows. Called in the server's thread, which serves nobody else meanwhile.
class Site {
public:
    virtual ~Site() = default;
    /// Of a page that is no file of web/.
    virtual Reply get(std::string_view page) = 0;
    virtual Reply post(std::string_view page, std::string_view body) = 0;
    /// Looks at the world, for all viewers at once. Returns what is new since the last call.
    virtual std::vector<News> look() = 0;
    /// What a new viewer must know, as of the last look.
    virtual std::vector<News> everything() = 0;
};

class Server {
public:
    /// How often the site looks: while somebody views the page, and otherwise.
    static constexpr Duration kLookEvery = milliseconds(500);
    static constexpr Duration kLookEveryUnseen = seconds(2);
    /// A look may take the 250th part of the time. With many jobs, or on a busy machine, looks are rarer.
    static constexpr std::int64_t kPausePerLook = 250;

    Server(os::Descriptor listener, Door door, Site& site);
    ~Server();

    /// Serves until a signal ends the process.
    void run();

private:
    struct Loop;
    std::unique_ptr<Loop> loop_;
};

}  // namespace salus::web
