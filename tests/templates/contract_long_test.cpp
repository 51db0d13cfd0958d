// Every compiler rejects what violates the contract: each mistake with the compilers that contract_test.cpp omits.
#include "templates/contract.h"

namespace jitstep::jit::contract {
namespace {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Contract);  // with a single compiler

INSTANTIATE_TEST_SUITE_P(Mistakes, Contract, ::testing::ValuesIn(mistakes_with(Share::others)),
                         name_of);

}  // namespace
}  // namespace jitstep::jit::contract
