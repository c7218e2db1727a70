#include "attachment/asking.h"

namespace salus::attachment {

wire::Need Asking::ask(std::uint64_t persistent, std::uint64_t ephemeral) {
    outcome_ = Outcome::kNone;
    return {++asked_, persistent, ephemeral};
}

bool Asking::on(const wire::NeedAnswer& answer) {
    if (answer.need != asked_) return false;
    outcome_ = answer.given != 0 ? Outcome::kGiven : Outcome::kDenied;
    return true;
}

}  // namespace salus::attachment
