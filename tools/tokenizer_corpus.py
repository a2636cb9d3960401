"""Text to train small tokenizers on: several scripts, code, digits, emoji, white space of all kinds."""

PARAGRAPHS = [
    "The quick brown fox jumps over the lazy dog, and the dog didn't even care; they'll do it again tomorrow.",
    "A rollout engine samples tokens from a policy, and the trainer scores what the policy has said.",
    "Question: what is 17 * 24? Let's think step by step. 17 * 20 = 340 and 17 * 4 = 68, so the answer is 408.",
    "The capital of France is Paris. The capital of Japan is Tokyo. The capital of Peru is Lima.",
    "I'm sure we've seen this before: it's the reward that's sparse, not the gradient. You'd think they're alike.",
    "Der schnelle braune Fuchs springt über den faulen Hund; die Straße ist naß, die Öfen sind heiß.",
    "Le cœur déçu mais l'âme plutôt naïve, Louÿs rêva de crapaüter en canoë au delà des îles.",
    "El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia y frío, añoraba a su querido cachorro.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. Быстрая лиса прыгает через ленивую собаку.",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. Η γρήγορη αλεπού πηδάει πάνω από το τεμπέλικο σκυλί.",
    "天地玄黃,宇宙洪荒。日月盈昃,辰宿列張。今天天气很好,我们去公园散步吧。",
    "いろはにほへと ちりぬるを。吾輩は猫である。名前はまだ無い。東京は日本の首都です。",
    "다람쥐 헌 쳇바퀴에 타고파. 오늘은 날씨가 좋습니다. 안녕하세요, 세계!",
    "صِف خَلقَ خَودِ كَمِثلِ الشَمسِ إِذ بَزَغَت. السلام عليكم ورحمة الله.",
    "דג סקרן שט בים מאוכזב ולפתע מצא חברה. שלום עולם.",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश करने वाले। नमस्ते दुनिया।",
    "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน สวัสดีชาวโลก",
    "Emoji: 😀 😂 👍🏽 👩‍👩‍👧‍👦 🏳️‍🌈 🇫🇷 ❤️ ✨ 🚀 and text faces :-) ^_^ ¯\\_(ツ)_/¯.",
    "def add(a, b):\n    return a + b\n\n\nfor i in range(10):\n\tprint(add(i, 2 ** i))\n",
    "int main(int argc, char** argv) {\n  std::vector<int> v = {1, 2, 3};\n  return v[0] != 1;\n}\n",
    '{"name": "unspool", "version": "0.1.0", "values": [1, 2.5, -3e-7, null, true], "nested": {"a": "b"}}\n',
    "Dates: 2024-01-31, 12:34:56; numbers: 0 1 22 333 4444 55555 1,000,000 3.14159 ½ ² ٣ ४.\r\n\r\n",
    "Spaces:  two   three    four\ttab\t\ttabs \n newline \n\n blank \u00a0nbsp \u3000wide \u2028line \u200bzero.",
    "Decomposed: cafe\u0301 nai\u0308ve A\u030angstro\u0308m; composed: café naïve Ångström; ﬁ ligature, Ⅷ, ①.",
    "WHY SHOUT? BECAUSE IT'S LOUD, I'LL SAY; THEY'VE HEARD. CamelCaseWords and snake_case_words, kebab-case.",
    "x = (a + b) * c / d - e % f; y <<= 3; if (!ok && n >= 0 || p == nullptr) { ++k; } // ... === !!! ???",
]


def training_lines():
    """The paragraphs, and sentences made of their words in other orders so that word counts differ."""
    words = " ".join(PARAGRAPHS[:9]).split()
    shuffled = [" ".join(words[start::step]) for step in range(2, 12) for start in range(step)]
    return PARAGRAPHS * 4 + shuffled
