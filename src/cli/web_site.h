// The web page's view of the service: what `salus ps`, `trace`, `usage`, `doctor`, `pause` and the like see and do, as one
// user.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/background_answer.h"
#include "cli/live_turns.h"
#include "cli/web_model.h"
#include "web/server.h"

namespace salus::cli {

class WebSite : public web::Site {
public:
    /// `forecast`: the program that prints `salus forecast --json`; empty: there is none, and the page does not offer it.
    WebSite(Viewer viewer, const std::vector<std::string>& forecast);

    web::Reply get(std::string_view page) override;
    web::Reply post(std::string_view page, std::string_view body) override;
    std::vector<web::News> look() override;
    std::vector<web::News> everything() override;

private:
    void look_at_turns(const Status& status, Instant at);
    web::News turns_news(Instant at, bool all);
    std::string name_of(UserId user);
    web::Reply job_page(std::string_view number) const;
    web::Reply usage();
    web::Reply forecast();
    web::News overview_news() const;

    Viewer viewer_;
    WebModel model_;
    struct OnDevice {
        LiveTurns turns;
        std::uint64_t trace_bytes;  ///< how much of its trace's end to ask for
    };
    std::vector<OnDevice> devices_;  ///< in the order of the status
    Instant epoch_;
    int service_pid_ = 0;
    std::map<UserId, std::string> names_;
    std::optional<BackgroundAnswer> forecast_;
};

}  // namespace salus::cli
