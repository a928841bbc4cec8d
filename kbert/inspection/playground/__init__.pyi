from kbert.inspection.playground.app import PlaygroundApp as PlaygroundApp
from kbert.inspection.playground.app import PlaygroundServer as PlaygroundServer
