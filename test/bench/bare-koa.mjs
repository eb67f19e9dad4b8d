// The lower bound for HTTP: Koa with its router sends prepared bytes.
import Router from '@koa/router'
import Koa from 'koa'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const [directory, port] = process.argv.slice(2)
const files = new Map()
const read = (name) => {
  if (!files.has(name)) files.set(name, readFileSync(join(directory, `${name}.json`)))
  return files.get(name)
}

const app = new Koa()
const router = new Router()
const send = (context, body) => {
  context.type = 'application/json'
  context.body = body
}
router.get('/:name', (context) => send(context, read(context.params.name)))
// The list is sent without the router: this is only Koa itself.
app.use((context, next) => (context.path === '/list' ? send(context, read('list')) : next()))
app.use(router.routes())
app.listen(Number(port), '127.0.0.1')
