#include "jit/manifest/manifest_braces.h"

namespace jitstep::jit {

void Braces::take(std::string_view code, std::size_t indent, const Place& place) {
  conditional_ = conditional_ || code.starts_with("#if");
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (code[i] == '{') open_.push_back({place, indent});
    if (code[i] == '}') close(i == 0, indent, place);
  }
}

void Braces::close(bool first, std::size_t indent, const Place& place) {
  if (conditional_) return;
  if (open_.empty()) place.fail("this `}` closes nothing; take it out, or open what it closes");
  if (first && open_.back().indent > indent) suspects_.push_back(open_.back());
  open_.pop_back();
}

void Braces::end() const {
  if (conditional_ || open_.empty()) return;
  const Open& guilty = suspects_.empty() ? open_.back() : suspects_.front();
  guilty.place.fail("the `{` of this line is not closed; write its `}`");
}

}  // namespace jitstep::jit
