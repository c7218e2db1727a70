#include "os/calendar.h"

#include <ctime>

namespace salus::os {

std::optional<double> unix_time_of(int year, int month, int day, int hour, int minute) {
    if (year < 1970 || hour < 0 || hour > 23 || minute < 0 || minute > 59) return std::nullopt;
    std::tm date{};
    date.tm_year = year - 1900;
    date.tm_mon = month - 1;
    date.tm_mday = day;
    date.tm_hour = hour;
    date.tm_min = minute;
    date.tm_isdst = -1;
    const auto at = static_cast<double>(std::mktime(&date));
    // It takes the 31st of June for the 1st of July.
    const bool is_there = date.tm_year == year - 1900 && date.tm_mon == month - 1 && date.tm_mday == day;
    return is_there ? std::optional(at) : std::nullopt;
}

double local_time_of_day_s(double unix_s) {
    const auto whole = static_cast<std::time_t>(unix_s);
    std::tm date{};
    ::localtime_r(&whole, &date);
    return date.tm_hour * 3600 + date.tm_min * 60 + date.tm_sec + (unix_s - static_cast<double>(whole));
}

}  // namespace salus::os
