from .app import PlaygroundApp as PlaygroundApp
from .app import PlaygroundServer as PlaygroundServer
