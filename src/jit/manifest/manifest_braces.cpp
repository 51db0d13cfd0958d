#include "jit/manifest/manifest_braces.h"

#include "jit/source/source_lines.h"

namespace jitstep::jit {

void Braces::take(std::string_view code, std::size_t indent, const Location& location) {
  conditional_ = conditional_ || directive(code, "if").data() != nullptr;
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (code[i] == '{') open_.push_back({location, indent});
    if (code[i] == '}') close(i == 0, indent, location);
  }
}

void Braces::close(bool first, std::size_t indent, const Location& location) {
  if (conditional_) return;
  if (open_.empty()) location.fail("this `}` has no matching `{`. Remove it, or add its `{`.");
  if (first && open_.back().indent > indent) suspects_.push_back(open_.back());
  open_.pop_back();
}

void Braces::end() const {
  if (conditional_ || open_.empty()) return;
  const Open& guilty = suspects_.empty() ? open_.back() : suspects_.front();
  guilty.location.fail("the `{` of this line is not closed. Add its `}`.");
}

}  // namespace jitstep::jit
