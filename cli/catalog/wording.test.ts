import { expect } from 'chai'
import { wordingOf } from './wording.js'

const context = {
  commands: new Map([['GET /templates', 'template list']]),
  flags: [{ name: 'image', field: 'template_id' }],
}

describe('the texts of commands', () => {
  for (const [name, text, converted] of [
    [
      'say "guest" instead of "container"',
      'A container. Containers of LXC containers stay',
      'A guest. Guests of LXC containers stay',
    ],
    ['say "customer" instead of "sub-user"', 'Sub-users and the sub-user', 'Customers and the customer'],
    ['keep the names of scopes', 'container:read, host:*', 'container:read, host:*'],
    ['name commands instead of API paths', 'see `GET /templates?page=1`', 'see `berth template list`'],
    ['name flags instead of API fields', 'with `template_id`', 'with `--image`'],
    [
      'say "output" and "flag" instead of "answer" and "field"',
      'Ignored if `template_id` is sent. The answer contains the rest. Omitted fields stay unchanged.',
      'Ignored if `--image` is given. The output contains the rest. Settings without a flag stay unchanged.',
    ],
    [
      'keep API paths and fields for which no command or flag exists',
      'with `containers` and `GET /nothing`',
      'with `containers` and `GET /nothing`',
    ],
  ] as const)
    it(name, () => expect(wordingOf(text, context)).to.equal(converted))
})
