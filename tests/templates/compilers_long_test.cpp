// The combinations that compilers_test.cpp leaves out.
#include "templates/compilers_bits.h"

namespace jitstep::support {
namespace {

INSTANTIATE_TEST_SUITE_P(All, Compilers, testing::ValuesIn(combinations(false)), kCaseName);

}  // namespace
}  // namespace jitstep::support
