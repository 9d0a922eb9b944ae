-- Orders that count: a streaming table reads each row of its source once.
CREATE STREAMING TABLE valid_orders AS
SELECT id, customer, product, quantity, price, quantity * price AS amount
FROM STREAM(orders)
WHERE quantity > 0;

-- Sales per product: a materialized view is computed from all rows in each update.
CREATE MATERIALIZED VIEW sales AS
SELECT product, count(*) AS orders, sum(amount) AS revenue
FROM valid_orders
GROUP BY product;
