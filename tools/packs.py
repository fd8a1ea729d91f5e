"""All tools of our own; importing it declares them."""

from countermand.saga.tool import AnyTool
from countermand.tools.cloud import create_load_balancer, provision_cluster
from countermand.tools.dns import register_domain_route
from countermand.tools.inventory import quote_order, reserve_stock
from countermand.tools.mail import send_confirmation
from countermand.tools.payments import authorize_payment, capture_payment

TOOLS: tuple[AnyTool, ...] = (
    quote_order,
    reserve_stock,
    authorize_payment,
    capture_payment,
    provision_cluster,
    create_load_balancer,
    register_domain_route,
    send_confirmation,
)
