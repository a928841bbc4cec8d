from .learn_vocabulary import learn_vocabulary as learn_vocabulary
from .normalizer import Normalizer as Normalizer
from .packing import pack as pack
from .packing import pack_ranges as pack_ranges
from .tokenizer import BertTokenizer as BertTokenizer
from .vocabulary import read_vocabulary as read_vocabulary
from .vocabulary import write_vocabulary as write_vocabulary
from .wordpiece import WordPiece as WordPiece
