// Writes a line of `salus top` piece by piece.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "cli/columns.h"
#include "cli/top_view.h"

namespace salus::cli {

/// Puts pieces one after the other, up to the width of the screen.
class LineWriter {
public:
    explicit LineWriter(const TopOptions& options) : options_(options) {}

    int at() const { return at_; }
    int left() const { return options_.width - at_; }
    void add(std::string_view text, Style style = Style::kPlain) {
        const int width = width_of(text);
        std::string shown = shorten(text, left(), options_.unicode ? "…" : "~");
        if (!shown.empty()) line_.push_back({at_, std::move(shown), style});
        at_ += width;  // beyond the edge if it was shortened: nothing more follows
    }
    void skip(int columns) { at_ += columns; }
    /// Adds the text in exactly this many columns.
    void cell(std::string_view text, int width, Align align, Style style) {
        add(pad(shorten(text, width, options_.unicode ? "…" : "~"), width, align), style);
    }
    Line take() && { return std::move(line_); }

private:
    const TopOptions& options_;
    Line line_;
    int at_ = 0;
};

}  // namespace salus::cli
