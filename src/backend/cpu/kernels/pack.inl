// Weights into panels: 16 rows become 16 lanes. Each instruction set brings the two transpositions; they write past the
// caches, which a model's weights would only sweep out.

struct Bf16Element {
  using Type = uint16_t;
  static F load(const uint16_t* p) { return f_from_bf16(p); }
  static void store(uint16_t* p, F v) { f_to_bf16(p, v); }
  // Pairs of k lie together, as one word.
  static void transpose(const unsigned char* rows, int64_t stride, unsigned char* out) {
    transpose_words(rows, stride, out);
  }
  static int64_t bytes(int64_t columns) { return (columns + 1) / 2 * 64; }
};
struct F16Element {
  using Type = uint16_t;
  static F load(const uint16_t* p) { return f_from_f16(p); }
  static void store(uint16_t* p, F v) { f_to_f16(p, v); }
  static void transpose(const unsigned char* rows, int64_t stride, unsigned char* out) {
    transpose_halves(rows, stride, out);
  }
  static int64_t bytes(int64_t columns) { return columns * 32; }
};
struct F32Element {
  using Type = float;
  static F load(const float* p) { return f_load(p); }
  static void store(float* p, F v) { f_store(p, v); }
  static void transpose(const unsigned char* rows, int64_t stride, unsigned char* out) {
    transpose_words(rows, stride, out);
  }
  static int64_t bytes(int64_t columns) { return columns * 64; }
};

template <class A, class B>
inline constexpr bool kSameElement = false;
template <class A>
inline constexpr bool kSameElement<A, A> = true;

// 64 bytes of each row as it is stored: elements that the transposition takes at once.
template <class To>
inline constexpr int64_t kPackColumns = 64 / static_cast<int64_t>(sizeof(typename To::Type));

// kPackColumns<To> elements of 16 rows, `stride` bytes apart and perhaps unaligned, to 1024 bytes of a panel.
template <class From, class To>
static inline void pack_block(const unsigned char* rows, int64_t stride, unsigned char* out) {
  if constexpr (kSameElement<From, To>) {
    To::transpose(rows, stride, out);
  } else {
    alignas(64) typename To::Type tile[16 * kPackColumns<To>];
    alignas(64) typename From::Type sixteen[16];
    for (int64_t r = 0; r < 16; ++r)
      for (int64_t k = 0; k < kPackColumns<To>; k += 16) {
        __builtin_memcpy(sixteen, rows + r * stride + k * static_cast<int64_t>(sizeof sixteen[0]), sizeof sixteen);
        To::store(tile + r * kPackColumns<To> + k, From::load(sixteen));
      }
    To::transpose(reinterpret_cast<const unsigned char*>(tile), 64, out);
  }
}

template <class From, class To>
static void pack(const void* source, int64_t columns, void* panel) {
  constexpr int64_t kColumns = kPackColumns<To>, kSize = static_cast<int64_t>(sizeof(typename From::Type));
  const auto* rows = static_cast<const unsigned char*>(source);
  auto* out = static_cast<unsigned char*>(panel);
  int64_t k = 0;
  for (; k + kColumns <= columns; k += kColumns)
    pack_block<From, To>(rows + k * kSize, columns * kSize, out + To::bytes(k));
  if (k < columns) {
    alignas(64) unsigned char padded[16 * kColumns * kSize] = {};
    alignas(64) unsigned char block[1024];
    for (int64_t r = 0; r < 16; ++r)
      __builtin_memcpy(padded + r * kColumns * kSize, rows + (r * columns + k) * kSize,
                       static_cast<uint64_t>((columns - k) * kSize));
    pack_block<From, To>(padded, kColumns * kSize, block);
    __builtin_memcpy(out + To::bytes(k), block, static_cast<uint64_t>(To::bytes(columns - k)));
  }
  _mm_sfence();
}
