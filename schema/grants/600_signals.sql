grant execute on function
    skiplane.create_webhook(text, text, text[], text, text, text, text, text, boolean, text, text),
    skiplane.list_webhooks(text, integer, uuid), skiplane.delete_webhook(uuid, text),
    skiplane.enable_webhook(uuid, boolean, text), skiplane.test_webhook(uuid, text), skiplane.callback_secret(text),
    skiplane.announce_alert(text, text, text, jsonb, text),
    skiplane.allow_procedure(text, text, text), skiplane.disallow_procedure(text)
to skiplane_operator;

grant execute on function skiplane.webhook_target(uuid), skiplane.prepare_procedure(text, jsonb) to skiplane_worker;
