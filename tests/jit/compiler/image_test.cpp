#include "jit/compiler/image.h"

#include <elf.h>

#include <cstring>
#include <random>

#include "jit/compiler/host_compiler.h"
#include "jit/fixtures.h"

namespace jitstep::jit {
namespace {

using Bytes = std::vector<std::byte>;

Bytes compiled(const std::string& unit) {
  return HostCompiler(Settings::from_environment()).compile(unit, "unit", Target::cpu()).image;
}

template <class T, class Change>
Bytes changed(Bytes image, std::size_t at, const Change& change) {
  T value;
  std::memcpy(&value, image.data() + at, sizeof value);
  change(value);
  std::memcpy(image.data() + at, &value, sizeof value);
  return image;
}

TEST(Image, ACompleteImageIsOfExactlyOneKind) {
  const Bytes image = compiled(testing::adding_unit("1"));
  EXPECT_EQ(image_problem(image, Target::cpu()), "");
  EXPECT_EQ(image_problem(image, Target::emulated()), "");
  EXPECT_NE(image_problem(image, Target::cuda(90)), "");
}

// The section headers come last, so that every truncation is detected.
TEST(Image, EveryTruncationIsDetected) {
  const Bytes image = compiled(testing::adding_unit("1"));
  for (std::size_t size = 0; size < image.size(); ++size)
    ASSERT_NE(image_problem(std::span(image).first(size), Target::cpu()), "") << size;
  const std::string problem =
      image_problem(std::span(image).first(image.size() / 2), Target::cpu());
  EXPECT_NE(problem.find(std::to_string(image.size() / 2)), problem.npos) << problem;
}

TEST(Image, AnImageWithoutAFunctionIsNotAKernel) {
  EXPECT_NE(image_problem(compiled(""), Target::cpu()), "");
  EXPECT_NE(image_problem(compiled("extern \"C\" int hidden() { return 1; }"), Target::cpu()), "");
  EXPECT_NE(
      image_problem(compiled("extern \"C\" __attribute__((visibility(\"default\"))) int x = 1;"),
                    Target::cpu()),
      "");
}

TEST(Image, HeadersWithHugeSizesAreRejected) {
  const Bytes image = compiled(testing::adding_unit("1"));
  for (const std::uint64_t huge :
       {~std::uint64_t{0}, ~std::uint64_t{0} - 63, std::uint64_t{1} << 63}) {
    EXPECT_NE(
        image_problem(changed<Elf64_Ehdr>(image, 0, [&](Elf64_Ehdr& head) { head.e_shoff = huge; }),
                      Target::cpu()),
        "");
    EXPECT_NE(
        image_problem(changed<Elf64_Ehdr>(image, 0, [&](Elf64_Ehdr& head) { head.e_phoff = huge; }),
                      Target::cpu()),
        "");
    EXPECT_NE(image_problem(changed<Elf64_Phdr>(image, sizeof(Elf64_Ehdr),
                                                [&](Elf64_Phdr& one) { one.p_filesz = huge; }),
                            Target::cpu()),
              "");
  }
  EXPECT_NE(image_problem(
                changed<Elf64_Ehdr>(image, 0, [](Elf64_Ehdr& head) { head.e_machine = EM_386; }),
                Target::cpu()),
            "");
}

TEST(Image, ArbitraryBytesDoNotCrash) {
  const Bytes image = compiled(testing::adding_unit("1"));
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes = image;
    for (int i = 0; i < 8; ++i) {
      const std::size_t end = i % 2 ? bytes.size() : sizeof(Elf64_Ehdr) + 5 * sizeof(Elf64_Phdr);
      bytes[random() % end] = static_cast<std::byte>(random());
    }
    image_problem(bytes, Target::cpu());
    image_problem(bytes, Target::cuda(90));
  }
}

}  // namespace
}  // namespace jitstep::jit
