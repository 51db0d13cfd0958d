// Entries that another compiler, ISA, option set or schema made.
#include "jit/cache/cache_fixtures.h"
#include "jit/compiler/host_compiler.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

using namespace testing;

// The host's compiler with a changed identity. The compiler itself works.
class OtherCompiler : public HostCompiler {
 public:
  OtherCompiler(const Settings& settings, const std::string& from, const std::string& to)
      : HostCompiler(settings), identity_(HostCompiler::identity(Target::cpu())) {
    const std::size_t at = identity_.rfind(from);  // the options come last
    if (at == std::string::npos) throw Error("the identity has no " + from + ": " + identity_);
    identity_.replace(at, from.size(), to);
  }
  const std::string& identity(const Target&) override { return identity_; }

 private:
  std::string identity_;
};

struct Change {
  const char* what;
  const char* from;
  const char* to;
  bool serves_without_compiler;
};

float one_and_one(Engine& engine) {
  return add_to(*engine.kernel(adding_unit("1"), "unit", Target::cpu()), 1);
}

void fill(const std::string& folder, const std::shared_ptr<Compiler>& compiler) {
  Engine(settings_with_cache(folder), {.host = compiler})
      .build(adding_unit("1"), "unit", Target::cpu());
}

// A host with a compiler ignores entries of other compilers.
void expect_a_miss(const std::shared_ptr<Compiler>& other) {
  TemporaryFolder folder;
  fill(folder.path(), other);
  Engine here(settings_with_cache(folder.path()));
  EXPECT_EQ(one_and_one(here), 2);
  EXPECT_EQ(here.statistics().compiled, 1u);
  EXPECT_EQ(testing::files_below(folder.path()).size(), 2u) << "both entries stay";
}

void expect_without_compiler(const std::shared_ptr<Compiler>& other, bool served) {
  TemporaryFolder folder;
  fill(folder.path(), other);
  Settings bare = settings_with_cache("");
  bare.cache_readonly = folder.path();
  bare.cxx = "/no/compiler";
  testing::WarningCollector no_folder;
  Engine without(bare);
  if (served) {
    EXPECT_EQ(one_and_one(without), 2);
  } else {
    EXPECT_THROW(one_and_one(without), Error);
  }
}

TEST(CacheForeign, EntriesOfAnotherCompilerIsaOrOptionsAreUsedOnlyIfTheyAreValidHere) {
  int tried = 0;
  for (const Change& change :
       {Change{"version", "gcc version ", "gcc version 99.", true},
        Change{"more ISA", "isa: -m", "isa: -mno-such-feature -mavx1024 -m", false},
        Change{"more ISA for clang", " +aes", " +aes +avx1024", false},
        Change{"less ISA", " -maes", "", true}, Change{"less ISA for clang", " +aes", "", true},
        Change{"options", "-ffp-contract=off", "-ffp-contract=fast", false},
        Change{"optimization", "-O3", "-O2", false}}) {
    SCOPED_TRACE(change.what);
    std::shared_ptr<Compiler> other;
    try {
      other = std::make_shared<OtherCompiler>(settings_with_cache(""), change.from, change.to);
    } catch (const Error&) {
      continue;  // clang's identity, or a CPU without that feature
    }
    expect_a_miss(other);
    expect_without_compiler(other, change.serves_without_compiler);
    ++tried;
  }
  EXPECT_GE(tried, 2) << "every compiler has options";
}

TEST(CacheForeign, AnEntryOfAnotherSchemaUnderARightNameIsCompiledAgain) {
  TemporaryFolder folder;
  const Settings settings = settings_with_cache(folder.path());
  Engine(settings).build(adding_unit("1"), "unit", Target::cpu());
  const std::string file = testing::files_below(folder.path()).at(0);
  std::string bytes = testing::content_of(file);
  bytes[8] = 1;
  bytes.resize(bytes.size() - 32);
  const Digest checksum = sha256(bytes_of(bytes));
  testing::write_file(file, bytes + text_of(checksum));
  Engine engine(settings);
  EXPECT_EQ(add_to(*engine.kernel(adding_unit("1"), "unit", Target::cpu()), 1), 2);
  EXPECT_EQ(engine.statistics().compiled, 1u);
  EXPECT_TRUE(Engine(settings).build(adding_unit("1"), "unit", Target::cpu())->from_cache);
}

}  // namespace
}  // namespace jitstep::jit
