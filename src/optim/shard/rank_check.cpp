#include "optim/shard/rank_check.h"

#include <array>
#include <cstring>

#include "jitstep/version.h"

namespace jitstep {
namespace {

constexpr std::int64_t kWords = 7;
using Row = std::array<std::int64_t, kWords>;
enum Word { kCall, kVersion, kSettings, kCount, kShapes, kOptions, kGradients };

torch::Tensor words(const std::int64_t* first, std::int64_t count) {
  return torch::from_blob(const_cast<std::int64_t*>(first), {count}, torch::kInt64);
}

const char* name_of(std::int64_t call) {
  constexpr std::array kNames = {"an error",    "shard()",        "step()",
                                 "train()",     "eval()",         "save()",
                                 "load()",      "fp32_weights()", "average_gradients()",
                                 "save_parts()"};
  return call >= 0 && call < std::ssize(kNames) ? kNames[static_cast<std::size_t>(call)]
                                                : "an unknown call";
}

Row row_of(RankCall call, std::uint64_t settings, const std::vector<ParameterDigest>& parameters) {
  RankHash shapes, options, gradients;
  for (const ParameterDigest& one : parameters) {
    shapes.add(one.shape);
    options.add(one.options);
    gradients.add(one.gradient);
  }
  return {static_cast<std::int64_t>(call),
          static_cast<std::int64_t>(RankHash().add(version()).value()),
          static_cast<std::int64_t>(settings),
          std::ssize(parameters),
          static_cast<std::int64_t>(shapes.value()),
          static_cast<std::int64_t>(options.value()),
          static_cast<std::int64_t>(gradients.value())};
}

// All ranks have the same rows, so all of them throw here or none.
void check_rows(const torch::Tensor& rows, int own) {
  for (std::int64_t rank = 0; rank < rows.size(0); ++rank) {
    const auto* const row = rows.const_data_ptr<std::int64_t>() + rank * kWords;
    if (row[kCall] == static_cast<std::int64_t>(RankCall::failed))
      throw RankFailure({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)},
                        c10::str("jitstep: rank ", own, ": rank ", rank, " failed before the ",
                                 "exchange. Nothing has changed. See its error."));
  }
  const auto* const first = rows.const_data_ptr<std::int64_t>();
  for (std::int64_t rank = 1; rank < rows.size(0); ++rank) {
    const auto* const row = first + rank * kWords;
    TORCH_CHECK(row[kVersion] == first[kVersion], "jitstep: ranks cannot share an optimizer: rank ",
                rank, " has another version of jitstep than rank 0. Install the same version.");
    TORCH_CHECK(row[kCall] == first[kCall], "jitstep: ranks cannot go on together: rank ", rank,
                " calls ", name_of(row[kCall]), ", and rank 0 calls ", name_of(first[kCall]),
                ". Make the same calls on all ranks.");
    TORCH_CHECK(row[kSettings] == first[kSettings],
                "jitstep: ranks cannot share an optimizer: rank ", rank,
                " has other ShardOptions than rank 0. Pass the same to shard() on all ranks.");
    TORCH_CHECK(row[kCount] == first[kCount], "jitstep: ranks cannot share an optimizer: rank ",
                rank, " has ", row[kCount], " parameters, and rank 0 has ", first[kCount],
                ". Use the same parameters on all ranks.");
  }
}

const char* difference(const ParameterDigest& own, const std::int64_t* other) {
  if (static_cast<std::int64_t>(own.shape) != other[0]) return "shape, layout or dtype";
  if (static_cast<std::int64_t>(own.gradient) != other[2])
    return "gradient, state or inputs (one of them has none)";
  return static_cast<std::int64_t>(own.options) != other[1] ? "options, formats or step number"
                                                            : nullptr;
}

// Finds the first parameter that differs between rank 0 and another rank.
void name_difference(RankGroup& group, const std::vector<ParameterDigest>& parameters,
                     const std::function<std::string(std::size_t)>& describe) {
  const auto count = static_cast<std::int64_t>(parameters.size());
  static_assert(sizeof(ParameterDigest) == 3 * sizeof(std::int64_t));
  const torch::Tensor all =
      group.all_gather(words(reinterpret_cast<const std::int64_t*>(parameters.data()), 3 * count));
  const auto* const first = all.const_data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    ParameterDigest of_first;
    std::memcpy(static_cast<void*>(&of_first), first + 3 * i, sizeof of_first);
    for (int rank = 1; rank < group.size(); ++rank) {
      const char* const what =
          difference(of_first, first + 3 * (rank * count + static_cast<std::int64_t>(i)));
      TORCH_CHECK(what == nullptr, "jitstep: ranks cannot go on together: rank ", rank,
                  " differs from rank 0 in the ", what, " of ", describe(i),
                  ". Nothing has changed. Use the same model, options and seed on all ranks, and ",
                  "give the same parameters a gradient.");
    }
  }
}

}  // namespace

RankHash& RankHash::add(std::string_view bytes) {
  for (const char one : bytes) value_ = (value_ ^ static_cast<unsigned char>(one)) * 1099511628211u;
  return *this;
}

RankHash& RankHash::add(torch::IntArrayRef values) {
  for (const std::int64_t one : values) add(one);
  return add(values.size());
}

void check_same(RankGroup& group, RankCall call, const std::vector<ParameterDigest>& parameters,
                const std::function<std::string(std::size_t)>& describe, std::uint64_t settings) {
  const Row own = row_of(call, settings, parameters);
  const torch::Tensor rows = group.all_gather(words(own.data(), kWords));
  check_rows(rows, group.rank());
  if (!rows.eq(rows[0]).all().item<bool>()) name_difference(group, parameters, describe);
}

void check_same(RankGroup& group, RankCall call) {
  check_same(group, call, {}, [](std::size_t) { return std::string(); });
}

void report_failure(RankGroup& group) noexcept {
  try {
    const Row own = {static_cast<std::int64_t>(RankCall::failed)};
    group.all_gather(words(own.data(), kWords));
  } catch (const std::exception&) {  // the error that is being reported matters more
  }
}

}  // namespace jitstep
