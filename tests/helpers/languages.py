"""Short texts in nine languages whose marks carry meaning, made for tests.

The tests need text that normalisation can spoil: voiced kana, Hangul, the
Devanagari virama and nukta, Thai tones, Arabic with vowel signs, two marks on
one Vietnamese letter, the Cyrillic short i, umlauts; and text that is taken
apart (NFD), half composed, in full and in half width, or holds joiners.
"""

import unicodedata

TEXTS = {
    "ja": """\
デフォルトの値はファイルのプロパティで変えられます。
がっこうの帰りに、ぼくは古い時計台のそばで友だちを待っていた。
港の灯台は百年前に建てられ、いまでも船を導いている。
パンとバターを買って、ゆうがたまでに戻ってください。
雪がとけると、山のふもとの川は水であふれる。
辞書を引けば、その言葉の意味がすぐに分かる。
ガラス窓のむこうで、ぞうがゆっくりと歩いていた。
値段は２０００，税は別です。
""",
    "ko": """\
오래된 등대는 아직도 항구로 들어오는 배를 이끌고 있다.
아침마다 할머니는 시장에서 신선한 채소를 고르셨다.
기본값은 설정 파일에서 바꿀 수 있습니다.
눈이 녹으면 골짜기의 시냇물이 불어난다.
우리는 저녁까지 빵과 우유를 사 와야 한다.
사전을 찾아보면 그 낱말의 뜻을 쉽게 알 수 있다.
창밖에서 아이들이 웃으며 뛰어놀고 있었다.
""",
    "zh": """\
港口的灯塔建于一百年前，如今仍为船只指路。
每天早晨，奶奶都去市场挑选新鲜的蔬菜。
默认值可以在配置文件中修改。
山上的雪融化以后，河水就会上涨。
请在傍晚之前把面包和牛奶买回来。
查一查词典，就能明白这个词的意思。
窗外的孩子们笑着跑来跑去，价格是２０００，另加税。
""",
    "hi": """\
पुराना प्रकाशस्तंभ आज भी जहाज़ों को रास्ता दिखाता है।
हर सुबह दादी बाज़ार से ताज़ी सब्ज़ियाँ चुनती थीं।
डिफ़ॉल्ट मान सेटिंग की फ़ाइल में बदला जा सकता है।
बर्फ़ पिघलने पर घाटी की नदी में पानी बढ़ जाता है।
शब्दकोश में देखो तो इस शब्द का अर्थ समझ में आएगा।
खिड़की के बाहर बच्चे हँसते हुए दौड़ रहे थे।
हिन्दी में क्ष, त्र और ज्ञ संयुक्त अक्षर हैं।
""",
    "th": """\
ประภาคารเก่ายังคงนำทางเรือเข้าสู่ท่า
ทุกเช้าคุณยายไปเลือกผักสดที่ตลาด
ค่าเริ่มต้นเปลี่ยนได้ในแฟ้มการตั้งค่า
เมื่อหิมะละลาย น้ำในแม่น้ำก็สูงขึ้น
กรุณาซื้อขนมปังกับนมกลับมาก่อนค่ำ
เปิดพจนานุกรมดูก็จะเข้าใจความหมายของคำนี้
เด็กๆ หัวเราะและวิ่งเล่นอยู่นอกหน้าต่าง
""",
    "ar": """\
لا تزال المنارة القديمة ترشد السفن إلى الميناء.
كانت جدّتي تختار الخضار الطازجة من السوق كلّ صباح.
يمكن تغيير القيمة الافتراضيّة في ملفّ الإعدادات.
عندما يذوب الثلج يرتفع ماء النهر في الوادي.
اشترِ الخبز والحليب قبل المساء، من فضلك.
اِقْرَأْ هٰذَا الكِتَابَ تَفْهَمْ مَعْنَى الكَلِمَة.
كان الأطفال يضحكون ويركضون خلف النافذة.
""",
    "vi": """\
Ngọn hải đăng cũ vẫn dẫn đường cho tàu thuyền vào cảng.
Mỗi buổi sáng, bà tôi ra chợ chọn những mớ rau tươi.
Giá trị mặc định có thể được đổi trong tệp cấu hình.
Khi tuyết tan, nước sông trong thung lũng dâng cao.
Xin hãy mua bánh mì và sữa trước buổi tối.
Tra từ điển thì sẽ hiểu nghĩa của từ ấy ngay.
Ma, má, mà, mả, mã, mạ là sáu từ khác nhau.
""",
    "ru": """\
Старый маяк всё ещё указывает кораблям путь в гавань.
Каждое утро бабушка выбирала на рынке свежие овощи.
Значение по умолчанию можно изменить в файле настроек.
Когда тает снег, река в долине поднимается.
Купи, пожалуйста, хлеб и молоко до вечера.
Загляни в словарь, и смысл этого слова станет ясен.
Мой младший брат ещё спит, а чайник уже закипел.
""",
    "de": """\
Der alte Leuchtturm weist den Schiffen noch immer den Weg.
Jeden Morgen wählte die Großmutter auf dem Markt frisches Gemüse.
Der Vorgabewert lässt sich in der Datei ändern.
Wenn der Schnee schmilzt, steigt der Fluss über die Ufer.
Bitte kaufe vor dem Abend Brötchen, Käse und Milch.
Wer im Wörterbuch nachschlägt, versteht das Wort schöner.
Schon sechs Maße ohne Masse kosten 2000, sagte er.
""",
}
LANGUAGES = tuple(TEXTS)


def lines(language: str) -> list[str]:
    """Sentences of one language, composed as people type them."""
    return TEXTS[language].splitlines()


def hard_lines(language: str) -> list[str]:
    """The same in other spellings, which must give the same pieces."""
    found = lines(language)
    return [unicodedata.normalize("NFD", line) for line in found]


# Raw -> what a vocabulary of the rule "composed" sees.
COMPOSED = {
    "か\u3099っこう": "がっこう",
    "ｶﾞﾗｽ ﾊﾟﾝ": "ガラス パン",
    "\u1112\u1161\u11ab국": "한국",
    "जहाज\u093cों": "जहाज\u093cों",
    "न\u094dद": "न\u094dद",
    "น\u0e49\u0e33": "น\u0e49\u0e33",
    "تَفْهَمْ": "تَفْهَمْ",
    "me\u0302\u0301n m\xea\u0301n m\u1ebfn": "m\u1ebfn m\u1ebfn m\u1ebfn",
    "Vi\u1eb9\u0302t": "Vi\u1ec7t",
    "мо\u0438\u0306": "мой",
    "Gro\xdf u\u0308ber": "Gro\xdf über",
    "می\u200cخواهم": "می\u200cخواهم",
    "क्\u200dष क्\u200cष": "क्\u200dष क्\u200cष",
    "２０００，": "2000,",
}


def write_corpus(path, copies: int = 4) -> str:
    """Documents of one language each, several times in other orders."""
    documents = []
    for copy in range(copies):
        for language in LANGUAGES:
            found = lines(language)
            turn = copy % len(found)
            documents.append("\n".join(found[turn:] + found[:turn]))
    path.write_text("\n\n".join(documents) + "\n")
    return str(path)
