"""What every long-running program shares. May import `base`.

`program` runs a service until it is stopped, `service` supervises its routes, `routes` is their interface, `meters`
count for them; `page` is the HTTP server, `status` what it shows of routes, `exposing` what Prometheus gets.
`signatures` signs and verifies requests.
"""
