// Loads a package, runs it on inputs that count upwards, and prints its results.
//
// The inputs' shapes are arguments: run_package model.pt2 4x16 3
#include <ATen/ATen.h>
#include <inductor_npu/package.h>

#include <cstdio>
#include <exception>
#include <sstream>
#include <string>
#include <vector>

namespace {

// "4x16" -> {4, 16}
std::vector<int64_t> parse_shape(const std::string& text) {
  std::vector<int64_t> shape;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, 'x');) {
    shape.push_back(std::stoll(part));
  }
  return shape;
}

// 0, 1/count, 2/count, ... in the given shape.
at::Tensor counting(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) {
    count *= size;
  }
  return at::arange(count, at::kFloat).div(static_cast<double>(count)).reshape(shape);
}

void show(const at::Tensor& tensor) {
  std::ostringstream shape;
  shape << tensor.sizes();
  std::printf("shape %s\n", shape.str().c_str());
  const at::Tensor values = tensor.cpu().to(at::kDouble).contiguous().flatten();
  for (int64_t i = 0; i < values.numel(); ++i) {
    std::printf("%.9g\n", values.const_data_ptr<double>()[i]);
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: run_package FILE [SHAPE ...]\n");
    return 2;
  }
  try {
    const auto package = inductor_npu::Package::load(arguments[1]);
    std::vector<at::Tensor> inputs;
    for (int i = 2; i < count; ++i) {
      inputs.push_back(counting(parse_shape(arguments[i])).to(c10::Device("npu")));
    }
    for (const at::Tensor& result : package->run(inputs)) {
      show(result);
    }
  } catch (const inductor_npu::PackageError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "%s\n", error.what_without_backtrace());
    return 1;
  }
  return 0;
}
