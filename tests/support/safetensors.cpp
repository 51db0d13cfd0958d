#include "support/safetensors.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "../../templates/lang/formats.cuh"

namespace jitstep::support {
namespace {

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

double value_at(const std::string& dtype, const std::byte* p, std::size_t i) {
  if (dtype == "F32") return load<float>(p + 4 * i);
  if (dtype == "F64") return load<double>(p + 8 * i);
  if (dtype == "U8") return load<std::uint8_t>(p + i);
  if (dtype == "I8") return load<std::int8_t>(p + i);
  if (dtype == "I16") return load<std::int16_t>(p + 2 * i);
  if (dtype == "I32") return load<std::int32_t>(p + 4 * i);
  if (dtype == "BF16") {
    const std::uint32_t bits = std::uint32_t{load<std::uint16_t>(p + 2 * i)} << 16;
    return load<float>(reinterpret_cast<const std::byte*>(&bits));
  }
  if (dtype == "F16") return fp16_to_float(load<std::uint16_t>(p + 2 * i));
  throw std::runtime_error("unknown dtype " + dtype);
}

}  // namespace

std::vector<double> RecordedTensor::values() const {
  std::size_t count = 1;
  for (auto size : shape) count *= static_cast<std::size_t>(size);
  std::vector<double> result(count);
  for (std::size_t i = 0; i < count; ++i) result[i] = value_at(dtype, bytes.data(), i);
  return result;
}

RecordedFile read_safetensors(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> text{std::istreambuf_iterator<char>(in), {}};
  if (text.size() < 8) throw std::runtime_error(path + " is not a safetensors file");
  const auto length = load<std::uint64_t>(reinterpret_cast<const std::byte*>(text.data()));
  const auto header = nlohmann::json::parse(text.data() + 8, text.data() + 8 + length);
  RecordedFile file;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      file.metadata = entry.get<std::map<std::string, std::string>>();
      continue;
    }
    const auto* data = reinterpret_cast<const std::byte*>(text.data()) + 8 + length;
    const auto begin = entry["data_offsets"][0].get<std::size_t>();
    const auto end = entry["data_offsets"][1].get<std::size_t>();
    file.tensors[name] = {entry["dtype"], entry["shape"], {data + begin, data + end}};
  }
  return file;
}

}  // namespace jitstep::support
