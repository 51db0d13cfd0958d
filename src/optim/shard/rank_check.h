// Compares what ranks are about to do, before they exchange data. Without it a difference would end in a wait, or in a
// back end that ends the process.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "optim/shard/rank_group.h"

namespace jitstep {

/// Calls that all ranks must make together.
enum class RankCall : std::int64_t {
  failed,
  shard,
  step,
  train,
  eval,
  save,
  load,
  fp32_weights,
  average_gradients,
  save_parts
};

/// A rank has called report_failure().
class RankFailure : public c10::Error {
 public:
  using c10::Error::Error;
};

/// A hash of anything that ranks must have in common.
class RankHash {
 public:
  RankHash& add(std::string_view bytes);
  template <class T>
  requires(std::is_trivially_copyable_v<T> &&
           !std::is_convertible_v<T, std::string_view>) RankHash& add(const T& value) {
    return add(std::string_view(reinterpret_cast<const char*>(&value), sizeof(T)));
  }
  RankHash& add(torch::IntArrayRef values);
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 14695981039346656037u;
};

/// What ranks must have in common for one parameter. Digests.
struct ParameterDigest {
  std::uint64_t shape = 0;  // sizes, dtype and strides. average_gradients(): without strides
  // Rule, options, formats, seed, step number. 0 in calls that launch no kernel.
  std::uint64_t options = 0;
  // step(), train(), eval(): 1 and a bit per given input if the parameter takes part. Other calls: 1 if it has state.
  std::uint64_t gradient = 0;
};

/// Throws a c10::Error on all ranks, of the same cause, unless all ranks make the same call with equal parameters: a
/// RankFailure if a rank failed. The message names a rank and the first parameter that differs. `describe`: a parameter
/// by its index. `settings`: a digest of the ShardOptions, which must be equal too.
void check_same(RankGroup& group, RankCall call, const std::vector<ParameterDigest>& parameters,
                const std::function<std::string(std::size_t)>& describe,
                std::uint64_t settings = 0);

/// The same for a point inside of a call, whose parameters have been compared.
void check_same(RankGroup& group, RankCall call);

/// Makes check_same() of the other ranks throw. Call it instead of check_same() after an error on this rank. Throws
/// nothing.
void report_failure(RankGroup& group) noexcept;

}  // namespace jitstep
