"""What tests and demonstrations may set of the world itself: its clock, delays, quotas, stock."""

from pydantic import Field, NonNegativeInt
from sqlalchemy.orm import Mapped, Session, mapped_column

from countermand.tools.world.database import Base
from countermand.tools.world.models.common import Frozen
from countermand.tools.world.models.dns import Content
from countermand.tools.world.models.mail import Letter


class Settings(Frozen):
    """How the world behaves. Delays in seconds of its own clock, which runs ``clock_offset_s`` ahead."""

    clock_offset_s: float = Field(default=0, ge=0)
    provision_delay_s: float = Field(default=0, ge=0)
    terminate_delay_s: float = Field(default=0, ge=0)
    propagation_delay_s: float = Field(default=0, ge=0)
    refund_delay_s: float = Field(default=60, ge=0)
    refunds_held: bool = Field(default=False, description="The balance is too low: refunds stay pending.")
    cluster_quota: NonNegativeInt = Field(default=10_000, description="Clusters a region may hold.")


class Seed(Frozen):
    """A request to set the stage; what it leaves out stays as it is."""

    provision_delay_s: float | None = Field(default=None, ge=0)
    terminate_delay_s: float | None = Field(default=None, ge=0)
    propagation_delay_s: float | None = Field(default=None, ge=0)
    refund_delay_s: float | None = Field(default=None, ge=0)
    refunds_held: bool | None = None
    cluster_quota: NonNegativeInt | None = None
    stock: dict[str, NonNegativeInt] = Field(default={}, description="Units by plan.")
    records: list[Content] = Field(default=[], description="DNS records that stand before anybody calls.")
    letters: list[Letter] = Field(default=[], description="Mails that came in before anybody calls.")


class AdvanceClock(Frozen):
    """A request to let time pass, so that nobody has to wait for it."""

    seconds: float = Field(gt=0, le=10**9)


class SettingsRow(Base, kw_only=True):
    """The one row that keeps the settings over a restart."""

    __tablename__ = "settings"

    id: Mapped[int] = mapped_column(primary_key=True)
    settings: Mapped[str]


def load(session: Session) -> Settings:
    """The settings as they were last saved."""
    row = session.get(SettingsRow, 1)
    return Settings.model_validate_json(row.settings) if row else Settings()


def save(session: Session, settings: Settings) -> None:
    """Keep the settings."""
    session.merge(SettingsRow(id=1, settings=settings.model_dump_json()))
