#include "optim/state/archive_fields.h"

namespace jitstep {
namespace {

using torch::serialize::InputArchive;

constexpr const char* kDamaged = ". It is damaged. Save the optimizer again.";

c10::IValue read(InputArchive& archive, const std::string& key,
                 bool (c10::IValue::*is_type)() const, const char* type) {
  c10::IValue value;
  TORCH_CHECK(archive.try_read(key, value), "jitstep: the checkpoint has no entry \"", key, "\"",
              kDamaged);
  TORCH_CHECK((value.*is_type)(), "jitstep: \"", key, "\" of the checkpoint is ", value.tagKind(),
              " instead of ", type, kDamaged);
  return value;
}

}  // namespace

InputArchive read_entry(InputArchive& archive, const std::string& key) {
  InputArchive inner;
  TORCH_CHECK(archive.try_read(key, inner), "jitstep: the checkpoint has no entry \"", key, "\"",
              kDamaged);
  return inner;
}

std::int64_t read_integer(InputArchive& archive, const std::string& key) {
  return read(archive, key, &c10::IValue::isInt, "an integer").toInt();
}

std::int64_t read_size(InputArchive& archive, const std::string& key) {
  const torch::Tensor size = read_tensor(archive, key);
  TORCH_CHECK(size.defined() && size.numel() == 1, "jitstep: \"", key, "\" of the checkpoint is ",
              size.defined() ? "not a number" : "missing", kDamaged);
  return size.item<std::int64_t>();
}

std::vector<std::int64_t> read_integers(InputArchive& archive, const std::string& key) {
  return read(archive, key, &c10::IValue::isIntList, "a list of integers").toIntVector();
}

std::string read_string(InputArchive& archive, const std::string& key) {
  return read(archive, key, &c10::IValue::isString, "a string").toStringRef();
}

torch::Tensor read_tensor(InputArchive& archive, const std::string& key) {
  c10::IValue value;
  if (!archive.try_read(key, value)) return {};
  return read(archive, key, &c10::IValue::isTensor, "a tensor").toTensor();
}

}  // namespace jitstep
