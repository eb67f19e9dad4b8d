import { Type } from 'typebox'
import { usernamePattern } from '../../accounts/account-record.js'
import { subUserPermissions } from '../../access/sub-user-bounds.js'
import { networkLimits } from '../../../shared/network-limits.js'
import { containerRef, restricts, trimmed } from '../../http/normalize.js'
import { oneOf, TimeSchema } from '../../http/schema.js'
import { TemplateIdSchema } from '../guests/create/create-body.js'
import { ExpirySchema } from '../guests/setting-schemas.js'

const optional = Type.Optional
const ContainerRefSchema = Type.String({
  ...containerRef,
  maxLength: 64,
  description: 'Name, UUID or numeric id of a container.',
})
const maxContainers = 1000

const terms = {
  container_names: optional(
    Type.Array(ContainerRefSchema, {
      ...restricts,
      maxItems: maxContainers,
      description: 'Containers of the sub-user: names, UUIDs or numeric ids. Empty: none.',
    }),
  ),
  permissions: optional(
    Type.Array(oneOf(subUserPermissions), {
      ...restricts,
      maxItems: subUserPermissions.length,
      description:
        'Permissions for these containers. Default at creation: all permissions that the caller has. `container:network:inner` only allows changing the container ports of mappings.',
    }),
  ),
  allowed_image_ids: optional(
    Type.Array(TemplateIdSchema, {
      ...restricts,
      maxItems: 1000,
      description: 'Ids of the images that the sub-user can use for reinstalls. Empty: none.',
    }),
  ),
  image_limit_configured: optional(
    Type.Boolean({
      ...restricts,
      description: '`true`: only images in `allowed_image_ids` can be used for reinstalls. `false`: any enabled image.',
    }),
  ),
  port_mapping_limit: optional(
    Type.Integer({
      ...restricts,
      minimum: 0,
      maximum: networkLimits.port.max,
      description:
        'Maximum number of mapped host ports per container. The sub-user cannot add a mapping that would exceed it.',
    }),
  ),
  expires_at: optional({ ...ExpirySchema, ...restricts }),
  disabled: optional(Type.Boolean(restricts)),
}

export const CreateSubUserSchema = Type.Object(
  {
    container_name: optional(
      Type.String({
        ...containerRef,
        maxLength: 64,
        description: 'One container. Ignored if `container_names` is sent.',
      }),
    ),
    username: optional(
      Type.String({
        ...trimmed,
        pattern: usernamePattern,
        description:
          'If omitted, a name is generated. If the caller is bound to containers, a random suffix is appended.',
      }),
    ),
    ...terms,
  },
  { title: 'NewSubUser' },
)

export const ChangeSubUserSchema = Type.Object(terms, { title: 'SubUserChange' })

export const RotateSchema = Type.Object(
  {
    rotate_code: optional(
      Type.Boolean({ description: '`true`: also create a new access code. The old link becomes invalid.' }),
    ),
  },
  { title: 'RotatePassword' },
)

const credentials = {
  username: Type.String(),
  password: Type.String({
    description: 'Password in plain text. It is returned only in this answer. Empty if the sub-user already existed.',
  }),
  access_code: Type.String({
    description: 'Access code of the link `/u/CODE`, which asks for the password.',
  }),
  link: Type.String({
    description: 'Complete login link. Empty: the public URL of the panel is not known, see `/public-url`.',
  }),
}

export const CreatedSubUserSchema = Type.Object(
  {
    id: Type.String(),
    ...credentials,
    container_names: Type.Array(Type.String()),
    created_at: TimeSchema,
    created: Type.Boolean({
      description: '`false`: the sub-user already existed and is unchanged; `password` is empty.',
    }),
  },
  { title: 'CreatedSubUser' },
)

export const RotatedSchema = Type.Object(credentials, { title: 'RotatedPassword' })

const words = (description: string) => Type.Array(Type.String(), { description })

export const SubUserRowSchema = Type.Object(
  {
    id: Type.String(),
    username: Type.String(),
    container_name: Type.String({ description: 'First of `container_names`.' }),
    container_uuid: Type.String(),
    container_names: words('Current names of the containers.'),
    container_uuids: words('UUIDs of the containers, in the same order as `container_names`.'),
    access_code: credentials.access_code,
    link: credentials.link,
    permissions: Type.Array(oneOf(subUserPermissions)),
    allowed_image_ids: words(
      'Ids of the images that the sub-user can use for reinstalls, if `image_limit_configured` is `true`.',
    ),
    image_limit_configured: Type.Boolean(),
    current_image_ids: words('Ids of the images from which its containers were created.'),
    port_mapping_limit: Type.Integer(),
    created_at: TimeSchema,
    created_by: Type.String({ description: 'Caller that created the sub-user: `key:ID` or `admin:ID`.' }),
    last_login: TimeSchema,
    last_login_ip: Type.String(),
    last_login_ua: Type.String(),
    expires_at: TimeSchema,
    disabled: Type.Boolean(),
  },
  { title: 'SubUser' },
)

export const SubUserPathSchema = Type.Object({
  id: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
})
