"""Asks a playground without a network."""

from werkzeug.test import Client


def asking(app):
    """A function that asks a view of an app: ``ask(view, status=200, **question)`` gives the JSON that was answered."""
    client = Client(app)

    def ask(view, status=200, **question):
        response = client.post(f"/api/{view}", json=question)
        assert response.status_code == status, response.text
        return response.json

    return ask
