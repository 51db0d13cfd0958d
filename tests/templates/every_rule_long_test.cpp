// Each rule in all codecs.
#include "templates/every_rule.h"

namespace jitstep::support {
namespace {

std::vector<std::string> all_codecs(const std::string&) {
  return jit::default_catalog().names(jit::Manifest::Kind::codec);
}

INSTANTIATE_TEST_SUITE_P(Shipped, EveryRuleInEveryCodec, every_rule_in(all_codecs), kRuleName);

}  // namespace
}  // namespace jitstep::support
