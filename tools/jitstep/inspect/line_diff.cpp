#include "line_diff.h"

#include <jit/base/text.h>

#include <algorithm>
#include <sstream>
#include <vector>

namespace jitstep::tool::inspect {
namespace {

using Lines = std::vector<std::string>;

constexpr std::ptrdiff_t kAround = 3;

Lines lines_of(const std::string& content) {
  Lines lines;
  std::istringstream stream(content);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// A line of the result: ' ', '-' or '+', and its line numbers in both texts, from 0.
struct Edit {
  char sign;
  std::size_t before, after;
};

// Myers' greedy search (An O(ND) Difference Algorithm, 1986). at(d, k) is the furthest line x of `a` that d edits reach
// on the diagonal k = x - y. Backtracking gives the edits.
class Search {
 public:
  Search(const Lines& a, const Lines& b) : a_(a), b_(b) {}

  // Texts with more than kMostEdits differences give all lines of `a`, then all lines of `b`.
  std::vector<Edit> edits() {
    const int n = static_cast<int>(a_.size()), m = static_cast<int>(b_.size());
    for (int d = 0; d <= kMostEdits; ++d) {
      furthest_.emplace_back(2 * d + 3, 0);
      for (int k = -d; k <= d; k += 2) {
        const int start = d == 0 ? 0 : down(d, k) ? at(d - 1, k + 1) : at(d - 1, k - 1) + 1;
        const int end = along_equals(start, k);
        furthest_.back()[static_cast<std::size_t>(k + d + 1)] = end;
        if (end >= n && end - k >= m) return back(d, n, m);
      }
    }
    std::vector<Edit> all;
    for (std::size_t i = 0; i < a_.size(); ++i) all.push_back({'-', i, 0});
    for (std::size_t i = 0; i < b_.size(); ++i) all.push_back({'+', a_.size(), i});
    return all;
  }

 private:
  static constexpr int kMostEdits = 4000;  // memory grows with its square

  int at(int d, int k) const {
    return furthest_[static_cast<std::size_t>(d)][static_cast<std::size_t>(k + d + 1)];
  }
  // Whether the last of d edits on the way to diagonal k adds a line of `b`.
  bool down(int d, int k) const {
    return k == -d || (k != d && at(d - 1, k - 1) < at(d - 1, k + 1));
  }
  int along_equals(int x, int k) const {
    const auto equal = [&](int i) {
      const auto y = static_cast<std::size_t>(i - k);
      return i >= k && y < b_.size() && static_cast<std::size_t>(i) < a_.size() &&
             a_[static_cast<std::size_t>(i)] == b_[y];
    };
    while (equal(x)) ++x;
    return x;
  }

  std::vector<Edit> back(int d, int x, int y) const {
    std::vector<Edit> edits;
    const auto add = [&](char sign) {
      edits.push_back({sign, static_cast<std::size_t>(x), static_cast<std::size_t>(y)});
    };
    for (; d > 0; --d) {
      const bool added = down(d, x - y);
      const int start = added ? at(d - 1, x - y + 1) : at(d - 1, x - y - 1) + 1;
      while (x > start) --x, --y, add(' ');
      added ? --y : --x;
      add(added ? '+' : '-');
    }
    while (x > 0) --x, --y, add(' ');
    std::reverse(edits.begin(), edits.end());
    return edits;
  }

  const Lines& a_;
  const Lines& b_;
  std::vector<std::vector<int>> furthest_;
};

}  // namespace

std::string line_diff(const std::string& before, const std::string& after) {
  const Lines a = lines_of(before), b = lines_of(after);
  const std::vector<Edit> edits = Search(a, b).edits();
  std::string out;
  std::ptrdiff_t shown = -1;  // index of the last edit in `out`
  for (std::ptrdiff_t i = 0; i < std::ssize(edits); ++i) {
    const auto near = [&] {
      const std::ptrdiff_t first = std::max<std::ptrdiff_t>(0, i - kAround);
      const std::ptrdiff_t last = std::min(std::ssize(edits) - 1, i + kAround);
      return std::any_of(edits.begin() + first, edits.begin() + last + 1,
                         [](const Edit& edit) { return edit.sign != ' '; });
    };
    if (!near()) continue;
    const Edit& edit = edits[static_cast<std::size_t>(i)];
    if (shown + 1 != i || i == 0)
      out += jit::str_cat("@@ -", edit.before + 1, " +", edit.after + 1, " @@\n");
    out += edit.sign + (edit.sign == '+' ? b[edit.after] : a[edit.before]) + "\n";
    shown = i;
  }
  return out;
}

}  // namespace jitstep::tool::inspect
