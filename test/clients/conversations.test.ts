import { describeBillingModule } from './billing-module.js'
import { ClientsHost } from './clients-host.js'
import { describeGoClient } from './go-client.js'
import { describeShellScript } from './shell-client.js'
import { describeTypedClient } from './typed-client.js'

/** Tests clients that providers already use. They send all their requests over HTTP to a gateway with a real host. */
describe('existing clients', function () {
  const host = new ClientsHost()
  before(() => host.start())
  after(() => host.stop())

  describe('a billing module in PHP', () => describeBillingModule(host))
  describe('a script with curl', () => describeShellScript(host))
  describe('a client in Go', () => describeGoClient(host))
  describe('a typed client', () => describeTypedClient(host))
})
