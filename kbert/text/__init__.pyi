from kbert.text.learn_vocabulary import learn_vocabulary as learn_vocabulary
from kbert.text.normalizer import Normalizer as Normalizer
from kbert.text.packing import pack as pack
from kbert.text.packing import pack_ranges as pack_ranges
from kbert.text.tokenizer import BertTokenizer as BertTokenizer
from kbert.text.vocabulary import read_vocabulary as read_vocabulary
from kbert.text.vocabulary import write_vocabulary as write_vocabulary
from kbert.text.wordpiece import WordPiece as WordPiece
