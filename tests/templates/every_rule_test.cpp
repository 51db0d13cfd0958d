// Each rule in a few codecs, chosen cyclically.
#include "templates/every_rule.h"

namespace jitstep::support {
namespace {

INSTANTIATE_TEST_SUITE_P(Shipped, EveryRuleInEveryCodec, every_rule_in(codecs_for), kRuleName);

}  // namespace
}  // namespace jitstep::support
