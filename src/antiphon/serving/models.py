"""`GET /v1/models`."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from antiphon.serving.served_model import ServedModel
from antiphon.wire.models import ModelCard, ModelList, ModelPermission


@dataclass(frozen=True)
class ModelEndpoints:
    """Cards of the served names."""

    model: ServedModel

    async def list(self, _request: Request) -> Response:
        cards = [self._card(name) for name in self.model.names]
        return JSONResponse(ModelList(object="list", data=cards).model_dump())

    async def one(self, request: Request) -> Response:
        name = request.path_params["name"]
        self.model.require(name)
        return JSONResponse(self._card(name).model_dump())

    def _card(self, name: str) -> ModelCard:
        created = self.model.created_s
        return ModelCard(
            id=name,
            created=created,
            root=self.model.root,
            max_model_len=self.model.max_model_len,
            permission=[ModelPermission(id=f"modelperm-{name}", created=created)],
        )
